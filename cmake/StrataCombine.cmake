# Making one object of many, for the archive: which linker and which objcopy are to do it. The names
# say little (CMake takes whichever ld.lld is about for clang, and LLVM's 14 does not know how to
# dissolve the groups that inline functions come in), so each pair has to show on two small objects
# that it can.

set(STRATA_PROBE_PART [=[
inline int& Shared() { static int n; return n; }
extern "C" __attribute__((visibility("default"))) int strata_probe_@part@() { return ++Shared(); }
]=])
# The program has a function of that name and another Shared of its own, in the same group: the
# archive's must be another, and must be there.
set(STRATA_PROBE_MAIN [=[
inline int& Shared() { static int n; return n; }
extern "C" int strata_probe_1();
extern "C" int strata_probe_2();
int main() {
  Shared() = 10;
  return strata_probe_1() == 1 && strata_probe_2() == 2 && Shared() == 10 ? 0 : 1;
}
]=])

# The commands that make `out` of `objects`, a list, as COMMAND clauses. Hidden names become local to
# it and cannot clash with the program's, save for the one that all USDT notes of a program have to
# share (src/profile/usdt.cpp).
function(strata_combine_commands result linker objcopy out)
  set(${result}
    COMMAND ${linker} -r --force-group-allocation -o ${out} ${ARGN}
    COMMAND ${objcopy} --localize-hidden ${out}
    COMMAND ${objcopy} --globalize-symbol=_.stapsdt.base ${out}
    COMMAND ${objcopy} --weaken-symbol=_.stapsdt.base ${out} PARENT_SCOPE)
endfunction()

# execute_process runs its commands at once, as a pipe: so one after the other.
function(strata_run_in_turn result)
  set(failed 0)
  set(command "")
  foreach(word IN LISTS ARGN ITEMS COMMAND)
    if(NOT word STREQUAL COMMAND)
      list(APPEND command "${word}")
    elseif(command AND failed EQUAL 0)
      execute_process(COMMAND ${command} RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
      set(command "")
    endif()
  endforeach()
  set(${result} "${failed}" PARENT_SCOPE)
endfunction()

function(strata_try_combiner result dir linker objcopy)
  strata_combine_commands(commands "${linker}" "${objcopy}" "${dir}/one.o"
    "${dir}/part_1.o" "${dir}/part_2.o")
  file(REMOVE "${dir}/one.o" "${dir}/program")
  strata_run_in_turn(failed ${commands}
    COMMAND "${CMAKE_CXX_COMPILER}" "${dir}/main.o" "${dir}/one.o" -o "${dir}/program"
    COMMAND ${CMAKE_CROSSCOMPILING_EMULATOR} "${dir}/program")
  if(failed EQUAL 0)
    set(${result} TRUE PARENT_SCOPE)
  else()
    set(${result} FALSE PARENT_SCOPE)
  endif()
endfunction()

# Sets STRATA_COMBINE_LINKER and STRATA_COMBINE_OBJCOPY in the cache. The first pair that can is
# taken; what the cache has already comes first.
function(strata_find_combiner)
  set(dir "${PROJECT_BINARY_DIR}/CMakeFiles/strata_combine")
  set(compile COMMAND "${CMAKE_CXX_COMPILER}" -O1 -fPIC -c)
  foreach(part 1 2)
    string(CONFIGURE "${STRATA_PROBE_PART}" text @ONLY)
    file(WRITE "${dir}/part_${part}.cpp" "${text}")
    list(APPEND steps ${compile} -fvisibility=hidden -fvisibility-inlines-hidden
      "${dir}/part_${part}.cpp" -o "${dir}/part_${part}.o")
  endforeach()
  file(WRITE "${dir}/main.cpp" "${STRATA_PROBE_MAIN}")
  strata_run_in_turn(failed ${steps} ${compile} "${dir}/main.cpp" -o "${dir}/main.o")
  if(NOT failed EQUAL 0)
    message(FATAL_ERROR "${CMAKE_CXX_COMPILER} does not compile ${dir}/main.cpp")
  endif()

  foreach(kind LINKER OBJCOPY)
    set(names ld.bfd ld x86_64-linux-gnu-ld.bfd ld.lld)
    if(kind STREQUAL OBJCOPY)
      set(names objcopy x86_64-linux-gnu-objcopy llvm-objcopy)
    endif()
    set(${kind}S ${STRATA_COMBINE_${kind}} ${CMAKE_${kind}})
    foreach(name IN LISTS names)
      find_program(found "${name}" NO_CACHE)
      if(found)
        list(APPEND ${kind}S "${found}")
      endif()
      unset(found)
    endforeach()
    list(REMOVE_DUPLICATES ${kind}S)
  endforeach()
  foreach(linker IN LISTS LINKERS)
    foreach(objcopy IN LISTS OBJCOPYS)
      strata_try_combiner(can "${dir}" "${linker}" "${objcopy}")
      if(can)
        set(STRATA_COMBINE_LINKER "${linker}" CACHE FILEPATH
          "Makes one object of those of libstrata.a" FORCE)
        set(STRATA_COMBINE_OBJCOPY "${objcopy}" CACHE FILEPATH
          "Makes its hidden names local" FORCE)
        return()
      endif()
    endforeach()
  endforeach()
  message(FATAL_ERROR "No linker and objcopy here can make one object of those of libstrata.a "
    "(tried ${LINKERS} with ${OBJCOPYS}): install binutils.")
endfunction()
