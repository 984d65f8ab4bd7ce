# Where things lie in libstrata.so. The kernel maps file pages by windows of 64 KiB around each one
# that is touched, so what all programs run stands at the start of one (scripts/start_up_order.py
# makes the list), behind what lies outside of our sections and runs at start or exit. Dynamic
# linkers before glibc 2.35, and musl's, begin in the middle of a window: that costs another.
# Constants lie beside what the loader reads, but for most strings and for what is rarely used: that
# stays behind the code, with the unwind tables, of which most programs have nothing in memory.
# Large variables lie behind all others (STRATA_LARGE), first the one whose beginning is in use. GNU
# ld and lld take the script in addition to their own.
set(STRATA_READ_AT_START /src/os/* /deep_bind /malloc/library_thread /malloc/runtime
  /malloc/stand_down /malloc/watched_calls /unwind/loaded_code)
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
    "SECTIONS { .rodata.start_up : {\n    *(.rodata.cst* .rodata._Z*)\n"
    "    *(EXCLUDE_FILE(*/gzip.cpp.o */hot_kernel.cpp.o */damon.cpp.o */client.cpp.o) .rodata)\n")
  foreach(file IN LISTS STRATA_READ_AT_START)
    string(APPEND text "    *${file}.cpp.o(.rodata.*)\n")
  endforeach()
  string(APPEND text "  } } INSERT AFTER .rela.plt;\n"
    "SECTIONS { .bss.large : { *system_kernel.cpp.o(.bss.large) *(.bss.large) } }\n"
    "  INSERT AFTER .bss;\n")
  file(CONFIGURE OUTPUT "${script}" CONTENT "${text}" @ONLY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${list}")
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${script}")
  target_link_options(${target} PRIVATE "LINKER:-T,${script}" LINKER:-z,max-page-size=0x10000)
endfunction()
