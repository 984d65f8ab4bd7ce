# Where things lie in libstrata.so. The kernel maps file pages by windows of 64 KiB around each one
# that is touched, but none beyond its segment. So what most small programs run, what idle workers
# of servers run, too, what these alone run, what they run as they serve, what some small programs
# run, and the rest are segments of their own, each from the start of a window on
# (scripts/start_up_order.py makes the list). What lies outside of our sections runs at start or
# exit. Dynamic linkers before glibc 2.35, and musl's, begin in the middle of a window: that costs
# another. Constants lie beside what the loader looks names up in, but for most strings and for what
# is rarely used: that stays behind the code, with the unwind tables, of which most programs have
# nothing in memory. Relocations are apart, as no fork reads them. Large variables lie behind all
# others (STRATA_LARGE), first the one whose beginning is in use. GNU ld and lld take the script in
# addition to their own; lld makes one segment of all code.
set(STRATA_READ_AT_START /src/os/* /deep_bind /malloc/library_thread /malloc/runtime
  /malloc/stand_down /malloc/watched_calls /unwind/loaded_code)
function(strata_order_start_up target list)
  set(script "${PROJECT_BINARY_DIR}/start_up.ld")
  set(start_up "    *crt*.o(.text)\n"
    "    *libc_nonshared.a:*(.text .text.*)\n    *(.text.startup .text.startup.*)\n"
    "    *(.text.exit .text.exit.*)\n")
  list(JOIN start_up "" start_up)
  set(common "    *(__rseq_failure)\n    *libgcc.a:*(.text .text.*)\n")
  set(idle "")
  set(serving "")
  set(some "")
  set(large "")
  file(STRINGS "${list}" lines REGEX "^[^#]")
  foreach(line IN LISTS lines)
    if(line MATCHES "^(.*):$")
      set(part "${CMAKE_MATCH_1}")
    elseif(line MATCHES "\\*$")
      string(APPEND ${part} "    *(.text.${line} .text.unlikely.${line})\n")
    else()
      string(APPEND ${part} "    *(.text.${line} .text.${line}.* .text.unlikely.${line})\n")
    endif()
  endforeach()
  set(constants "")
  foreach(file IN LISTS STRATA_READ_AT_START)
    string(APPEND constants "    *${file}.cpp.o(.rodata.*)\n")
  endforeach()
  # GNU ld begins another segment where it would have to skip a page of the largest size.
  set(apart ". = ALIGN(CONSTANT(MAXPAGESIZE)) + CONSTANT(MAXPAGESIZE);")
  file(CONFIGURE OUTPUT "${script}" @ONLY CONTENT "SECTIONS {
  .fini : { KEEP (*(SORT_NONE(.fini))) }
  .text.start_up : {\n@start_up@  }
  @apart@
  .plt : { *(.plt) *(.iplt) }
  .plt.got : { *(.plt.got) }
  .plt.sec : { *(.plt.sec) }
  .text.common : {\n@common@  }
  @apart@
  .text.idle : {\n@idle@  }
  @apart@
  .text.serving : {\n@serving@  }
  @apart@
  .text.some : {\n@some@  }
  @apart@
  .text.large : {\n@large@  }
} INSERT BEFORE .text;
SECTIONS {
  .rodata.start_up : {
    *(.rodata.cst* .rodata._Z*)
    *(EXCLUDE_FILE(*/gzip.cpp.o */hot_kernel.cpp.o */damon.cpp.o */client.cpp.o) .rodata)
@constants@  }
  @apart@
} INSERT AFTER .gnu.version_r;
SECTIONS { .bss.large : { *system_kernel.cpp.o(.bss.large) *(.bss.large) } } INSERT AFTER .bss;
")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${list}")
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${script}")
  target_link_options(${target} PRIVATE "LINKER:-T,${script}" LINKER:-z,max-page-size=0x10000)
endfunction()
