// What the otel_memory probes are watched on: a program that allocates, resizes and frees known
// amounts; and one that has a probe of its own, to be linked with the archive.
#include "case.h"

#ifdef WITH_OWN_PROBE
// As <sys/sdt.h> makes it: the byte in .stapsdt.base is shared by all files of a program.
static void OwnProbe(void) {
  __asm__ __volatile__(
      "990: nop\n"
      ".pushsection .note.stapsdt,\"\",\"note\"\n"
      ".balign 4\n"
      ".4byte 992f - 991f, 994f - 993f, 3\n"
      "991: .asciz \"stapsdt\"\n"
      "992: .balign 4\n"
      "993: .8byte 990b, _.stapsdt.base, 0\n"
      ".asciz \"own\"\n.asciz \"probe\"\n.asciz \"\"\n"
      "994: .balign 4\n"
      ".popsection\n"
      ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
      ".weak _.stapsdt.base\n"
      ".hidden _.stapsdt.base\n"
      "_.stapsdt.base: .space 1\n"
      ".popsection\n");
}
CASE(own_probe) { OwnProbe(); }
#endif

enum { kBlocks = 8192, kBytes = 8 << 10 };
static void* blocks[kBlocks];

// 64 MiB in blocks of 8 KiB; every second one is freed, and every fourth becomes 16 KiB, of which
// there are 32 MiB in the end, beside 16 MiB that stayed.
CASE(mix) {
  for (int i = 0; i < kBlocks; ++i) CHECK((blocks[i] = malloc(kBytes)) != NULL);
  for (int i = 0; i < kBlocks; i += 2) free(blocks[i]);
  for (int i = 1; i < kBlocks; i += 4) CHECK((blocks[i] = realloc(blocks[i], 2 * kBytes)) != NULL);
}
