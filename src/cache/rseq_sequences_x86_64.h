// The sequences of rseq_sequences.h for x86-64. The stress test in tests/cache runs the same code
// with the descriptor left out, to show that it would catch a broken one. Sits in cache.
//
// Each sequence: publish the descriptor in rseq_cs, read the vCPU id, work, commit with one store.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cache/rseq_parts.h"
#include "cache/slab.h"
#include "os/rseq.h"
#include "span/size_classes.h"

// Tells the kernel that a sequence begins. The control of the stress test leaves it out.
#ifndef STRATA_RSEQ_PUBLISH
#define STRATA_RSEQ_PUBLISH(spare) \
  "lea 3b(%%rip), %[" spare "]\n mov %[" spare "], %%fs:8(%[area])\n"
#endif

// The descriptor (start, length, abort address) and the abort trampoline, which must be preceded by
// the signature that glibc registered. `spare` names a register that holds nothing yet; [slab]
// holds where the vCPU's number lies, and then the address of its slab.
#define STRATA_RSEQ_DESCRIPTOR(spare) \
  ".pushsection __rseq_cs, \"aw\"\n"      \
  ".balign 32\n"                          \
  "3:\n"                                  \
  ".long 0, 0\n"                          \
  ".quad 1f, 2f - 1f, 4f\n"               \
  ".popsection\n"                         \
  ".pushsection __rseq_failure, \"ax\"\n" \
  ".byte 0x0f, 0xb9, 0x3d\n"              \
  ".long 0x53053053\n"                    \
  "4: jmp %l[aborted]\n"                  \
  ".popsection\n" STRATA_RSEQ_PUBLISH(spare)     \
  "1:\n"                                  \
  "movl %%fs:(%[slab]), %k[slab]\n"       \
  "shl $16, %[slab]\n"                    \
  "add %[slabs], %[slab]\n"

// Copies [count] pointers, from the last on. A `rep movs` takes 18 cycles for one to 31 of them and
// 55 for 64 (Zen 5), this 8 to 24.
#define STRATA_RSEQ_COPY                    \
  "mov %[count], %[left]\n"                 \
  "test $1, %b[left]\n"                     \
  "je 5f\n"                                 \
  "movq -8(%[from],%[left],8), %%xmm0\n"    \
  "movq %%xmm0, -8(%[to],%[left],8)\n"      \
  "dec %[left]\n"                           \
  "5:\n"                                    \
  "test $2, %b[left]\n"                     \
  "je 6f\n"                                 \
  "movups -16(%[from],%[left],8), %%xmm0\n" \
  "movups %%xmm0, -16(%[to],%[left],8)\n"   \
  "sub $2, %[left]\n"                       \
  "6:\n"                                    \
  "test %[left], %[left]\n"                 \
  "je 8f\n"                                 \
  "7:\n"                                    \
  "movups -16(%[from],%[left],8), %%xmm0\n" \
  "movups -32(%[from],%[left],8), %%xmm1\n" \
  "movups %%xmm0, -16(%[to],%[left],8)\n"   \
  "movups %%xmm1, -32(%[to],%[left],8)\n"   \
  "sub $4, %[left]\n"                       \
  "jne 7b\n"                                \
  "8:\n"

static_assert(strata::kSlabShift == 16 && strata::kRseqCsOffset == 8);
static_assert(strata::kSlabBeginOffset == 8 && strata::kSlabEndOffset == 10);
static_assert(strata::kSlabArrayOffset == 16 && strata::kSlabFactorOffset == 12);
static_assert(strata::kFreedMarkOffset == 4);
static_assert(strata::kStartBound == 0x40000 && sizeof(strata::PageEntry) == 4);

namespace strata {

STRATA_ALWAYS_INLINE void* RseqPopAt(const RseqSlabs& r, void* slabs, size_t header) {
  ptrdiff_t slab;
  void* object;    // holds the fill until the object is loaded
  ptrdiff_t area;  // holds the array's address once the descriptor is published
retry:
  slab = r.index_offset;
  area = r.area_offset;
  asm volatile goto(STRATA_RSEQ_DESCRIPTOR("object")
                    "movzwl (%[slab],%[header]), %k[object]\n"
                    "cmp 8(%[slab],%[header]), %w[object]\n"
                    "jbe %l[empty]\n"
                    "mov 16(%[slab],%[header]), %[area]\n"
                    "mov -8(%[area],%[object],8), %[object]\n"
                    "addq $0xffff, (%[slab],%[header])\n"  // fill - 1, pops + 1
                    "2:\n"
                    : [slab] "+&r"(slab), [object] "=&r"(object), [area] "+&r"(area)
                    : [slabs] "r"(slabs), [header] "r"(header)
                    : "memory", "cc"
                    : empty, aborted);
  if (object == nullptr)
    __builtin_unreachable();  // slots below the fill hold objects: spares the caller a test
  WipeMark(object);
  return object;
aborted:
  goto retry;
empty:
  return FromLabel<void*>(nullptr);
}

// `entries` of the page map, and the one of the object's page. Calls `otherwise` with the reason if
// the object was not pushed. kSuspect: the object has the mark of those that are free, is the
// newest of its class here, or no object starts there. Which of the first two is asked:
// mark_looks.h. The mark alone proves no double free: a sequence that is sent back to its start
// after it has set the mark finds its own.
template <class Otherwise>
STRATA_ALWAYS_INLINE void RseqPush(const RseqSlabs& r, void* slabs, const PageEntry* entries,
                                   size_t page, void* object, Otherwise otherwise) {
  ptrdiff_t slab;
  void** array;     // first tells whether an object starts there
  uint64_t header;  // its offset, then the mark
  ptrdiff_t area;   // holds the fill once the descriptor is published
retry:
  slab = r.index_offset;
  area = r.area_offset;
  asm volatile goto(
      STRATA_RSEQ_DESCRIPTOR("array")
      "movzwl (%[entries],%[page],4), %k[header]\n"
      "mov %k[object], %k[array]\n"
      "add %[header], %[slab]\n"
      "imul 12(%[slab]), %k[array]\n"
      "add (%[entries],%[page],4), %k[array]\n"
      "cmp $0x40000, %k[array]\n"
      "jae %l[suspect]\n"
      "movzwl (%[slab]), %k[area]\n"
      "cmp 10(%[slab]), %w[area]\n"
      "jae %l[full]\n"
      "mov 16(%[slab]), %[array]\n"
      "test %k[object], %[looks]\n"
      "je 5f\n"
      "cmp %[object], -8(%[array],%[area],8)\n"
      "je %l[suspect]\n"
      "mov %[object], (%[array],%[area],8)\n"
      "jmp 6f\n"
      "5:\n"
      "mov %[mark], %k[header]\n"
      "cmp %k[header], 4(%[object])\n"
      "je %l[suspect]\n"
      "mov %[object], (%[array],%[area],8)\n"
      "mov %k[header], 4(%[object])\n"
      "6:\n"
      "incq (%[slab])\n"
      "2:\n"
      : [slab] "+&r"(slab), [array] "=&r"(array), [header] "=&r"(header), [area] "+&r"(area)
      : [slabs] "r"(slabs), [entries] "r"(entries), [page] "r"(page), [object] "r"(object),
        [mark] "m"(r.mark), [looks] "m"(r.looks)
      : "memory", "cc"
      : full, suspect, aborted);
  return;
aborted:
  goto retry;
full:
  return otherwise(FromLabel(PushResult::kNoRoom));
suspect:
  return otherwise(FromLabel(PushResult::kSuspect));
}

// Copies the newest objects, at most n, to `out` and takes them off; returns how many. Counts no
// pops.
inline size_t RseqPopBatch(const RseqSlabs& r, void* slabs, SizeClass c, void** out, size_t n) {
  ptrdiff_t slab;
  uint64_t word;
  uint64_t count;
  uint64_t left;
  const void* from;
  const size_t header = Raw(c) * sizeof(SlabHeader);
retry:
  slab = r.index_offset;
  asm volatile goto(STRATA_RSEQ_DESCRIPTOR("word")
                    "mov (%[slab],%[header]), %[word]\n"
                    "movzwl %w[word], %k[from]\n"
                    "movzwl 8(%[slab],%[header]), %k[count]\n"
                    "sub %[from], %[count]\n"
                    "neg %[count]\n"  // fill - begin; negative when stopped
                    "jle %l[empty]\n"
                    "cmp %[n], %[count]\n"
                    "cmova %[n], %[count]\n"
                    "sub %[count], %[word]\n"
                    "sub %[count], %[from]\n"
                    "shl $3, %[from]\n"
                    "add 16(%[slab],%[header]), %[from]\n"
                    STRATA_RSEQ_COPY
                    "mov %[word], (%[slab],%[header])\n"
                    "2:\n"
                    : [slab] "+&r"(slab), [word] "=&r"(word), [count] "=&r"(count),
                      [left] "=&r"(left), [from] "=&r"(from)
                    : [slabs] "m"(slabs), [header] "r"(header), [area] "r"(r.area_offset), [n] "m"(n),
                      [to] "r"(out)
                    : "memory", "cc", "xmm0", "xmm1"
                    : empty, aborted);
  return count;
aborted:
  goto retry;
empty:
  return FromLabel<size_t>(0);
}

// Puts on as many of the n objects as there is room for; returns how many (the first ones).
inline size_t RseqPushBatch(const RseqSlabs& r, void* slabs, SizeClass c, void* const* objects,
                            size_t n) {
  ptrdiff_t slab;
  uint64_t word;
  uint64_t count;
  uint64_t left;
  void* to;
  const size_t header = Raw(c) * sizeof(SlabHeader);
retry:
  slab = r.index_offset;
  asm volatile goto(STRATA_RSEQ_DESCRIPTOR("word")
                    "mov (%[slab],%[header]), %[word]\n"
                    "movzwl %w[word], %k[to]\n"
                    "movzwl 10(%[slab],%[header]), %k[count]\n"
                    "sub %[to], %[count]\n"  // room; negative when stopped or shrunk
                    "jle %l[full]\n"
                    "cmp %[n], %[count]\n"
                    "cmova %[n], %[count]\n"
                    "add %[count], %[word]\n"
                    "shl $3, %[to]\n"
                    "add 16(%[slab],%[header]), %[to]\n"
                    STRATA_RSEQ_COPY
                    "mov %[word], (%[slab],%[header])\n"
                    "2:\n"
                    : [slab] "+&r"(slab), [word] "=&r"(word), [count] "=&r"(count),
                      [left] "=&r"(left), [to] "=&r"(to)
                    : [slabs] "m"(slabs), [header] "r"(header), [area] "r"(r.area_offset), [n] "m"(n),
                      [from] "r"(objects)
                    : "memory", "cc", "xmm0", "xmm1"
                    : full, aborted);
  return count;
aborted:
  goto retry;
full:
  return FromLabel<size_t>(0);
}

// Whether the calling thread runs on the vCPU. Then no other does, and every sequence that any of
// them had begun there is sent back to its start: to the vCPU's own slab this is what a fence is,
// without a system call.
inline bool RseqIsOn(const RseqSlabs& r, void* slabs, size_t vcpu) {
  ptrdiff_t slab;
  uint64_t seen;
  const uintptr_t wanted = reinterpret_cast<uintptr_t>(slabs) + (vcpu << kSlabShift);
retry:
  slab = r.index_offset;
  asm volatile goto(STRATA_RSEQ_DESCRIPTOR("seen")
                    "cmp %[wanted], %[slab]\n"
                    "jne %l[elsewhere]\n"
                    "movl $1, %k[seen]\n"
                    "2:\n"
                    : [slab] "+&r"(slab), [seen] "=&r"(seen)
                    : [slabs] "r"(slabs), [wanted] "r"(wanted), [area] "r"(r.area_offset)
                    : "memory", "cc"
                    : elsewhere, aborted);
  return true;
aborted:
  goto retry;
elsewhere:
  return FromLabel(false);
}

}  // namespace strata
