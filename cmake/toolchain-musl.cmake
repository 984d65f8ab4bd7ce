# Builds for musl with Debian's musl-tools, or with -DSTRATA_MACHINE=aarch64 on x86-64 with what
# scripts/musl-arm64.sh fetches. There is no C++ library for it: the run time needs none, only
# headers, and libstdc++'s serve with the few lines of cmake/musl before them. Programs link
# libstrata-musl.a or preload libstrata-musl.so.
set(CMAKE_SYSTEM_NAME Linux)
set(STRATA_MACHINE "${CMAKE_HOST_SYSTEM_PROCESSOR}" CACHE STRING "The architecture to build for")
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES STRATA_MACHINE)
set(CMAKE_SYSTEM_PROCESSOR ${STRATA_MACHINE})
set(STRATA_LIBC musl CACHE STRING "")
set(triplet ${STRATA_MACHINE}-linux-musl)
set(gnu ${STRATA_MACHINE}-linux-gnu)
if(STRATA_MACHINE STREQUAL CMAKE_HOST_SYSTEM_PROCESSOR)
  set(CMAKE_C_COMPILER musl-gcc)
  set(CMAKE_CXX_COMPILER g++)
  set(musl /usr)
  set(headers /usr/include)
  set(headers_of_machine /usr/include/${gnu})
  set(cxx_of_machine ${headers_of_machine}/c++)
else()
  execute_process(COMMAND "${CMAKE_CURRENT_LIST_DIR}/../scripts/musl-arm64.sh"
    OUTPUT_VARIABLE musl OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set(CMAKE_C_COMPILER "${musl}/musl-gcc")
  set(CMAKE_CXX_COMPILER ${gnu}-g++)
  foreach(tool ar ranlib objcopy strip)
    string(TOUPPER ${tool} name)
    set(CMAKE_${name} /usr/bin/${gnu}-${tool})
  endforeach()
  set(CMAKE_LINKER /usr/bin/${gnu}-ld)
  # For the probe of StrataCombine.cmake, which g++ links with glibc here, too.
  set(CMAKE_CROSSCOMPILING_EMULATOR "qemu-${STRATA_MACHINE};-L;/usr/${gnu}")
  string(APPEND musl /usr)
  set(headers /usr/${gnu}/include)
  set(headers_of_machine ${headers})
  set(cxx_of_machine "")
endif()
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)  # nothing of C++ could be linked

execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=include OUTPUT_VARIABLE own
  OUTPUT_STRIP_TRAILING_WHITESPACE)
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -dumpversion OUTPUT_VARIABLE version
  OUTPUT_STRIP_TRAILING_WHITESPACE)
set(cxx "${headers}/c++/${version}")
if(cxx_of_machine)
  string(APPEND cxx_of_machine "/${version}")
else()
  set(cxx_of_machine "${cxx}/${gnu}")
endif()
# The kernel's headers lie beside glibc's.
set(kernel "${CMAKE_BINARY_DIR}/kernel-headers")
file(MAKE_DIRECTORY "${kernel}")
file(CREATE_LINK ${headers}/linux "${kernel}/linux" SYMBOLIC)
file(CREATE_LINK ${headers}/asm-generic "${kernel}/asm-generic" SYMBOLIC)
file(CREATE_LINK ${headers_of_machine}/asm "${kernel}/asm" SYMBOLIC)
set(CMAKE_C_FLAGS_INIT "-isystem ${kernel}")
string(JOIN " -isystem " CMAKE_CXX_FLAGS_INIT "-nostdinc -nostdinc++"
  "${CMAKE_CURRENT_LIST_DIR}/musl" ${cxx} ${cxx_of_machine} ${musl}/include/${triplet} ${own}
  ${kernel})
if(STRATA_MACHINE STREQUAL "aarch64")
  # libgcc's choice between two kinds of atomics asks for a function that glibc alone has.
  string(APPEND CMAKE_CXX_FLAGS_INIT " -mno-outline-atomics")
endif()
