# Where things lie in libstrata.so: the functions that most programs run come first, side by side
# (scripts/start_up_order.py says why and makes the list), with what lies outside of our sections and
# runs at start or exit. In the middle of what servers' workers run, where the list has
# __rseq_failure, lies what else every worker touches. Constants lie beside what the loader reads: at
# their place behind the code, pieces of the unwind tables would come into memory with them. GNU ld
# and lld take the script in addition to their own.
function(strata_order_start_up target list)
  file(STRINGS "${list}" names REGEX "^[^#]")
  set(script "${PROJECT_BINARY_DIR}/start_up.ld")
  set(text "SECTIONS {\n  .fini : { KEEP (*(SORT_NONE(.fini))) }\n")
  string(APPEND text "  .text.start_up : {\n")
  string(APPEND text "    *crt*.o(.text)\n    *libgcc.a:*cpuinfo.o(.text .text.*)\n"
    "    *libgcc.a:*popcountdi2.o(.text .text.*)\n"
    "    *libc_nonshared.a:*(.text .text.*)\n    *(.text.startup .text.startup.*)\n"
    "    *(.text.exit .text.exit.*)\n")
  foreach(name IN LISTS names)
    if(name STREQUAL "__rseq_failure")
      string(APPEND text "  }\n  .plt : { *(.plt) *(.iplt) }\n"
        "  .plt.got : { *(.plt.got) }\n  .plt.sec : { *(.plt.sec) }\n"
        "  .text.workers : {\n    *(${name})\n    *libgcc.a:*(.text .text.*)\n")
    else()
      string(APPEND text "    *(.text.${name} .text.${name}.*)\n")
    endif()
  endforeach()
  string(APPEND text "  }\n} INSERT BEFORE .text;\n"
    "SECTIONS { .rodata : { *(.rodata .rodata.*) } } INSERT AFTER .rela.plt;\n")
  file(CONFIGURE OUTPUT "${script}" CONTENT "${text}" @ONLY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${list}")
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${script}")
  target_link_options(${target} PRIVATE "LINKER:-T,${script}")
endfunction()
