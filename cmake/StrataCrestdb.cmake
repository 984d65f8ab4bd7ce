# CrestDB, apps/crestdb: the structures as a library, which its tests link too, and build/bin/crestdb.
file(GLOB CRESTDB_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/apps/crestdb/*.cpp"
  "${PROJECT_SOURCE_DIR}/apps/crestdb/*/*.cpp")
list(FILTER CRESTDB_SOURCES EXCLUDE REGEX "/main\\.cpp$")
add_library(crestdb_parts STATIC EXCLUDE_FROM_ALL ${CRESTDB_SOURCES})
set_target_properties(crestdb_parts PROPERTIES ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
target_include_directories(crestdb_parts PUBLIC "${PROJECT_SOURCE_DIR}/apps/crestdb")
target_compile_features(crestdb_parts PUBLIC cxx_std_20)
target_compile_options(crestdb_parts PRIVATE -Wall -Wextra -Werror -Wshadow)
find_package(Threads REQUIRED)
target_link_libraries(crestdb_parts PUBLIC strata_headers Threads::Threads)

add_executable(crestdb "${PROJECT_SOURCE_DIR}/apps/crestdb/main.cpp")
# For who asks for it, and for the tests that run it, which are those of a release.
if(NOT STRATA_TESTS OR NOT CMAKE_LIBRARY_OUTPUT_DIRECTORY)
  set_target_properties(crestdb PROPERTIES EXCLUDE_FROM_ALL TRUE)
endif()
target_compile_options(crestdb PRIVATE -Wall -Wextra -Werror -Wshadow)
target_link_libraries(crestdb PRIVATE crestdb_parts Strata::static)
# A release goes to build/bin, as its libraries go to build/lib.
set(CRESTDB_FOLDER "${PROJECT_BINARY_DIR}/bin")
if(CMAKE_LIBRARY_OUTPUT_DIRECTORY)
  set(CRESTDB_FOLDER "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/../bin")
endif()
set_target_properties(crestdb PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CRESTDB_FOLDER}")
