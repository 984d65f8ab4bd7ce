# Where things lie in libstrata.so. The kernel maps file pages by windows of 64 KiB around each one
# that is touched, so what all programs run stands at the start of one (scripts/start_up_order.py
# makes the list), behind what lies outside of our sections and runs at start or exit. Dynamic
# linkers before glibc 2.35, and musl's, begin in the middle of a window: that costs another.
# Constants lie beside what the loader reads: at their place behind the code, pieces of the unwind
# tables would come into memory with them. GNU ld and lld take the script in addition to their own.
function(strata_order_start_up target list)
  file(STRINGS "${list}" names REGEX "^[^#]")
  set(script "${PROJECT_BINARY_DIR}/start_up.ld")
  set(text "SECTIONS {\n  .fini : { KEEP (*(SORT_NONE(.fini))) }\n"
    "  .plt : { *(.plt) *(.iplt) }\n  .plt.got : { *(.plt.got) }\n  .plt.sec : { *(.plt.sec) }\n"
    "  .text.start_up : {\n    *(__rseq_failure)\n"
    "    *crt*.o(.text)\n    *libgcc.a:*(.text .text.*)\n"
    "    *libc_nonshared.a:*(.text .text.*)\n    *(.text.startup .text.startup.*)\n"
    "    *(.text.exit .text.exit.*)\n")
  list(JOIN text "" text)
  foreach(name IN LISTS names)
    if(name MATCHES "\\*$")
      string(APPEND text "    *(.text.${name} .text.unlikely.${name})\n")
    else()
      string(APPEND text "    *(.text.${name} .text.${name}.* .text.unlikely.${name})\n")
    endif()
  endforeach()
  string(APPEND text "  }\n} INSERT BEFORE .text;\n"
    "SECTIONS { .rodata : { *(.rodata .rodata.*) } } INSERT AFTER .rela.plt;\n")
  file(CONFIGURE OUTPUT "${script}" CONTENT "${text}" @ONLY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${list}")
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${script}")
  target_link_options(${target} PRIVATE "LINKER:-T,${script}" LINKER:-z,max-page-size=0x10000)
endfunction()
