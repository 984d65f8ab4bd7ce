# Where things lie in libstrata.so. The kernel maps file pages by windows of 64 KiB around each one
# that is touched, but none beyond its segment. So what most small programs run, what idle workers
# of servers run, too, what these alone run, what they run as they serve, what some small programs
# run, and the rest are segments of their own, each from the start of a window on
# (scripts/start_up_order.py makes the list). Dynamic linkers before glibc 2.35, and musl's, begin in
# the middle of a window: that costs another. Constants lie beside what the loader looks names up in,
# but for most strings and for what is rarely used: that stays with the unwind tables, of which most
# programs have nothing in memory. Relocations begin the last window there, as no fork reads them.
# They are read once, and the code behind them is run by every heap within its first hugepages, some
# of it again as more come: malloc/start_code.cpp lets go of both once the heap grows, so nothing
# between strata_once_begin and strata_once_end may ever be written. Large variables lie behind all others
# (STRATA_LARGE), first the one whose beginning is in use. GNU ld and lld take the script in addition
# to their own; lld makes one segment of all code.
set(STRATA_READ_AT_START /base/own_variables /deep_bind /libc_symbol /malloc/library_thread
  /malloc/runtime /malloc/stand_down /malloc/watched_calls /os/address_limit /os/clock
  /os/confinement /os/metadata_memory /os/rseq /os/side_stack /os/system_kernel /rseq_area /unwind/eh_frame
  /unwind/loaded_code)
function(strata_order_start_up target list)
  set(script "${PROJECT_BINARY_DIR}/start_up.ld")
  set(start_up "    *libc_nonshared.a:*(.text .text.*)\n    *(.text.startup .text.startup.*)\n")
  set(common "    *crt*.o(.text)\n    *(.text.exit .text.exit.*)\n"
    "    *(__rseq_failure)\n    *libgcc.a:*(.text .text.*)\n")
  list(JOIN common "" common)
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
  set(constants "    *(.rodata.cst* .rodata._Z*E .rodata._ZN6strata11DwarfCursor*)\n"
    "    */malloc/options.cpp.o(.rodata)\n    */malloc/option_table.cpp.o(.rodata)\n")
  list(JOIN constants "" constants)
  foreach(file IN LISTS STRATA_READ_AT_START)
    string(APPEND constants "    *${file}.cpp.o(.rodata .rodata.*)\n")
  endforeach()
  # GNU ld begins another segment where it would have to skip a page of the largest size.
  set(window ". = ALIGN(CONSTANT(MAXPAGESIZE));")
  set(apart "${window} . += CONSTANT(MAXPAGESIZE);")
  file(CONFIGURE OUTPUT "${script}" @ONLY CONTENT "SECTIONS {
  .rodata.start_up : {
@constants@  }
  @apart@
  .rodata : { *(.rodata .rodata.*) }
  .eh_frame_hdr : { *(.eh_frame_hdr) }
  .eh_frame : { KEEP (*(.eh_frame)) }
  .gcc_except_table : { *(.gcc_except_table .gcc_except_table.*) }
  @window@
  PROVIDE_HIDDEN (strata_once_begin = .);
  .rela.plt : { *(.rela.plt .rela.iplt) }
  .rela.dyn : { *(.rela.*) }
  @apart@
} INSERT AFTER .gnu.version_r;
SECTIONS {
  .text.start_up : {\n@start_up@  }
  PROVIDE_HIDDEN (strata_once_end = .);
  @apart@
  .init : { KEEP (*(SORT_NONE(.init))) }
  .fini : { KEEP (*(SORT_NONE(.fini))) }
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
SECTIONS { .bss.large : { *metadata_memory.cpp.o(.bss.large) *(.bss.large) } } INSERT AFTER .bss;
")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${list}")
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${script}")
  target_link_options(${target} PRIVATE "LINKER:-T,${script}" LINKER:-z,max-page-size=0x10000)
endfunction()
