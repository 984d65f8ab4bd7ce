# Builds for musl with Debian's musl-tools. There is no C++ library for it: the run time needs none,
# only headers, and libstdc++'s serve with the few lines of cmake/musl before them. Programs link
# libstrata-musl.a or preload libstrata-musl.so.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_HOST_SYSTEM_PROCESSOR})
set(STRATA_LIBC musl CACHE STRING "")
set(triplet ${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-musl)
set(host ${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu)
set(CMAKE_C_COMPILER musl-gcc)
set(CMAKE_CXX_COMPILER g++)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)  # nothing of C++ could be linked

execute_process(COMMAND g++ -print-file-name=include OUTPUT_VARIABLE own
  OUTPUT_STRIP_TRAILING_WHITESPACE)
execute_process(COMMAND g++ -dumpversion OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE)
# The kernel's headers lie beside glibc's.
set(kernel "${CMAKE_BINARY_DIR}/kernel-headers")
file(MAKE_DIRECTORY "${kernel}")
file(CREATE_LINK /usr/include/linux "${kernel}/linux" SYMBOLIC)
file(CREATE_LINK /usr/include/asm-generic "${kernel}/asm-generic" SYMBOLIC)
file(CREATE_LINK /usr/include/${host}/asm "${kernel}/asm" SYMBOLIC)
set(CMAKE_C_FLAGS_INIT "-isystem ${kernel}")
string(JOIN " -isystem " CMAKE_CXX_FLAGS_INIT "-nostdinc -nostdinc++"
  "${CMAKE_CURRENT_LIST_DIR}/musl" /usr/include/c++/${version}
  /usr/include/${host}/c++/${version} /usr/include/${triplet} ${own} ${kernel})
