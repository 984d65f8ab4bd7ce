// The probes and the notes that tell tools where they are. See usdt.h.
//
// A probe is a nop; a note in .note.stapsdt (SystemTap's format, version 3) gives its address, that
// of .stapsdt.base (by which tools see that a file was moved after linking), that of its counter of
// listeners, and where its arguments are. The same as <sys/sdt.h> makes, which is no part of libc.
#include "profile/usdt.h"

#include "base/arch.h"

#define STRATA_SEMAPHORE __attribute__((section(".probes"), used))

// The arguments are held in the registers of the calling convention: OpenTelemetry's profiler reads
// those and not the note.
#define STRATA_PROBE(name, arguments, ...)         \
  __asm__ __volatile__(                            \
      "990: nop\n"                                 \
      ".pushsection .note.stapsdt,\"\",\"note\"\n" \
      ".balign 4\n"                                \
      ".4byte 992f - 991f, 994f - 993f, 3\n"       \
      "991: .asciz \"stapsdt\"\n"                  \
      "992: .balign 4\n"                           \
      "993: .8byte 990b\n"                         \
      ".8byte _.stapsdt.base\n"                    \
      ".8byte strata_usdt_" name                   \
      "_semaphore\n"                               \
      ".asciz \"otel_memory\"\n"                   \
      ".asciz \"" name                             \
      "\"\n"                                       \
      ".asciz \"" arguments                        \
      "\"\n"                                       \
      "994: .balign 4\n"                           \
      ".popsection\n"                              \
      :                                            \
      : __VA_ARGS__)

// One byte for the whole program, however many files have probes: a group, of which the linker
// keeps one. Weak and not local: else a program with probes of its own that is linked with the
// archive would have two, and tools would look one byte beside ours.
__asm__(
    ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
    ".weak _.stapsdt.base\n"
    ".hidden _.stapsdt.base\n"
    "_.stapsdt.base: .space 1\n"
    ".size _.stapsdt.base, 1\n"
    ".popsection\n");

namespace strata::usdt_internal {

STRATA_SEMAPHORE volatile uint16_t g_alloc_listeners = 0;
STRATA_SEMAPHORE volatile uint16_t g_free_listeners = 0;

void FireAlloc(uintptr_t address, size_t size, uint64_t weighted_bytes) {
  register uintptr_t first __asm__(STRATA_FIRST_ARGUMENT) = address;
  register size_t second __asm__(STRATA_SECOND_ARGUMENT) = size;
  register uint64_t third __asm__(STRATA_THIRD_ARGUMENT) = weighted_bytes;
  STRATA_PROBE("alloc", "8@%0 8@%1 8@%2", "r"(first), "r"(second), "r"(third));
}

void FireFree(uintptr_t address) {
  register uintptr_t first __asm__(STRATA_FIRST_ARGUMENT) = address;
  STRATA_PROBE("free", "8@%0", "r"(first));
}

}  // namespace strata::usdt_internal
