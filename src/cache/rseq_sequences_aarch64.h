// The sequences of rseq_sequences.h for aarch64. The stress test in tests/cache runs the same code
// with the descriptor left out, to show that it would catch a broken one. Sits in cache.
//
// Each sequence: publish the descriptor in rseq_cs, read the vCPU id, work, commit with one store.
// The bounds are loaded with acquire and first: who sees the bounds of a new array sees the array
// and the fill that belong to them (Slab::Open). Pushes commit with release: who sees the fill, as
// CpuCache::Holds does from elsewhere, sees what lies in the slots below it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cache/rseq_parts.h"
#include "cache/slab.h"
#include "os/rseq.h"
#include "span/size_classes.h"

// Tells the kernel that a sequence begins. The control of the stress test leaves it out. The
// register, which x86-64 names, is [slab] always.
#ifndef STRATA_RSEQ_PUBLISH
#define STRATA_RSEQ_PUBLISH(spare)   \
  "adrp %[slab], 3b\n"               \
  "add %[slab], %[slab], :lo12:3b\n" \
  "str %[slab], [%[a], #8]\n"
#endif

// The descriptor (start, length, abort address) and the abort trampoline, which must be preceded by
// the signature that was registered: an instruction that traps. Sets `slab` and, for the class
// whose headers begin at `header`, `at`.
#define STRATA_RSEQ_DESCRIPTOR \
  ".pushsection __rseq_cs, \"aw\"\n"              \
  ".balign 32\n"                                  \
  "3:\n"                                          \
  ".long 0, 0\n"                                  \
  ".quad 1f, 2f - 1f, 4f\n"                       \
  ".popsection\n"                                 \
  ".pushsection __rseq_failure, \"ax\"\n"         \
  ".inst 0xd428bc00\n"                            \
  "4: b %l[aborted]\n"                            \
  ".popsection\n"                                 \
  "mrs %[b], tpidr_el0\n"                         \
  "add %[a], %[b], %[area]\n" STRATA_RSEQ_PUBLISH("slab") \
  "1:\n"                                          \
  "ldr %w[slab], [%[b], %[index]]\n"              \
  "add %[slab], %[slabs], %[slab], lsl #16\n"

static_assert(strata::kSlabShift == 16 && strata::kRseqCsOffset == 8);
static_assert(strata::kSlabBeginOffset == 8 && strata::kSlabEndOffset == 10);
static_assert(strata::kSlabArrayOffset == 16 && strata::kSlabFactorOffset == 12);
static_assert(strata::kFreedMarkOffset == 4);
static_assert(strata::kStartBound == 0x40000 && sizeof(strata::PageEntry) == 4);

namespace strata {

STRATA_ALWAYS_INLINE void* RseqPopAt(const RseqSlabs& r, void* slabs, size_t header) {
  uintptr_t slab;  // the address of the class's header, once the vCPU is known
  uint64_t a;
  uint64_t b;
  void* object;
retry:
  asm volatile goto(STRATA_RSEQ_DESCRIPTOR
                    "add %[slab], %[slab], %[header]\n"
                    "add %[a], %[slab], #8\n"
                    "ldarh %w[a], [%[a]]\n"
                    "ldr %[b], [%[slab]]\n"
                    "uxth %w[object], %w[b]\n"
                    "cmp %w[object], %w[a]\n"
                    "b.ls %l[empty]\n"
                    "ldr %[a], [%[slab], #16]\n"
                    "add %[a], %[a], %[object], lsl #3\n"
                    "ldur %[object], [%[a], #-8]\n"
                    "add %[b], %[b], #16, lsl #12\n"  // fill - 1, pops + 1
                    "sub %[b], %[b], #1\n"
                    "str %[b], [%[slab]]\n"
                    "2:\n"
                    : [slab] "=&r"(slab), [object] "=&r"(object), [a] "=&r"(a), [b] "=&r"(b)
                    : [slabs] "r"(slabs), [header] "r"(header), [area] "r"(r.area_offset),
                      [index] "r"(r.index_offset)
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
  uintptr_t slab;
  uint64_t a;
  uint64_t b;
  uint64_t fill;
  const PageEntry* entry = entries + page;
retry:
  asm volatile goto(STRATA_RSEQ_DESCRIPTOR
                    "ldr %w[a], [%[entry]]\n"
                    "add %[slab], %[slab], %w[a], uxth\n"
                    "ldr %w[b], [%[slab], #12]\n"
                    "madd %w[a], %w[object], %w[b], %w[a]\n"
                    "cmp %w[a], #0x40, lsl #12\n"
                    "b.hs %l[suspect]\n"
                    "add %[a], %[slab], #10\n"
                    "ldarh %w[a], [%[a]]\n"
                    "ldr %[b], [%[slab]]\n"
                    "uxth %w[fill], %w[b]\n"
                    "cmp %w[fill], %w[a]\n"
                    "b.hs %l[full]\n"
                    "ldr %[a], [%[slab], #16]\n"
                    "add %[a], %[a], %[fill], lsl #3\n"
                    "tst %w[object], %w[looks]\n"
                    "b.eq 5f\n"
                    "ldr %[fill], [%[a], #-8]\n"
                    "cmp %[fill], %[object]\n"
                    "b.eq %l[suspect]\n"
                    "str %[object], [%[a]]\n"
                    "b 6f\n"
                    "5:\n"
                    "ldr %w[fill], [%[object], #4]\n"
                    "cmp %w[fill], %w[mark]\n"
                    "b.eq %l[suspect]\n"
                    "str %[object], [%[a]]\n"
                    "str %w[mark], [%[object], #4]\n"
                    "6:\n"
                    "add %[b], %[b], #1\n"
                    "stlr %[b], [%[slab]]\n"
                    "2:\n"
                    : [slab] "=&r"(slab), [a] "=&r"(a), [b] "=&r"(b), [fill] "=&r"(fill)
                    : [slabs] "r"(slabs), [entry] "r"(entry), [object] "r"(object),
                      [area] "r"(r.area_offset), [index] "r"(r.index_offset), [mark] "r"(r.mark),
                      [looks] "r"(__atomic_load_n(&r.looks, __ATOMIC_RELAXED))
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
  uintptr_t slab;
  uint64_t a;
  uint64_t b;
  uint64_t word;
  uint64_t count;
  void** to;
  const size_t header = Raw(c) * sizeof(SlabHeader);
retry:
  to = out;
  asm volatile goto(STRATA_RSEQ_DESCRIPTOR
                    "add %[slab], %[slab], %[header]\n"
                    "add %[a], %[slab], #8\n"
                    "ldarh %w[a], [%[a]]\n"
                    "ldr %[word], [%[slab]]\n"
                    "and %[b], %[word], #0xffff\n"
                    "subs %[count], %[b], %[a]\n"  // fill - begin; negative when stopped
                    "b.le %l[empty]\n"
                    "cmp %[count], %[n]\n"
                    "csel %[count], %[n], %[count], hi\n"
                    "sub %[word], %[word], %[count]\n"
                    "sub %[b], %[b], %[count]\n"
                    "ldr %[a], [%[slab], #16]\n"
                    "add %[b], %[a], %[b], lsl #3\n"
                    "add %[a], %[b], %[count], lsl #3\n"
                    "5: ldr x17, [%[b]], #8\n"
                    "str x17, [%[to]], #8\n"
                    "cmp %[b], %[a]\n"
                    "b.ne 5b\n"
                    "str %[word], [%[slab]]\n"
                    "2:\n"
                    : [slab] "=&r"(slab), [a] "=&r"(a), [b] "=&r"(b), [word] "=&r"(word),
                      [count] "=&r"(count), [to] "+&r"(to)
                    : [slabs] "r"(slabs), [header] "r"(header), [area] "r"(r.area_offset),
                      [index] "r"(r.index_offset), [n] "r"(n)
                    : "x17", "memory", "cc"
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
  uintptr_t slab;
  uint64_t a;
  uint64_t b;
  uint64_t word;
  uint64_t count;
  void* const* from;
  const size_t header = Raw(c) * sizeof(SlabHeader);
retry:
  from = objects;
  asm volatile goto(STRATA_RSEQ_DESCRIPTOR
                    "add %[slab], %[slab], %[header]\n"
                    "add %[a], %[slab], #10\n"
                    "ldarh %w[a], [%[a]]\n"
                    "ldr %[word], [%[slab]]\n"
                    "and %[b], %[word], #0xffff\n"
                    "subs %[count], %[a], %[b]\n"  // room; negative when stopped or shrunk
                    "b.le %l[full]\n"
                    "cmp %[count], %[n]\n"
                    "csel %[count], %[n], %[count], hi\n"
                    "add %[word], %[word], %[count]\n"
                    "ldr %[a], [%[slab], #16]\n"
                    "add %[b], %[a], %[b], lsl #3\n"
                    "add %[a], %[b], %[count], lsl #3\n"
                    "5: ldr x17, [%[from]], #8\n"
                    "str x17, [%[b]], #8\n"
                    "cmp %[b], %[a]\n"
                    "b.ne 5b\n"
                    "stlr %[word], [%[slab]]\n"
                    "2:\n"
                    : [slab] "=&r"(slab), [a] "=&r"(a), [b] "=&r"(b), [word] "=&r"(word),
                      [count] "=&r"(count), [from] "+&r"(from)
                    : [slabs] "r"(slabs), [header] "r"(header), [area] "r"(r.area_offset),
                      [index] "r"(r.index_offset), [n] "r"(n)
                    : "x17", "memory", "cc"
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
  uintptr_t slab;
  uint64_t a;
  uint64_t b;
  uint32_t seen;
  const uintptr_t wanted = reinterpret_cast<uintptr_t>(slabs) + (vcpu << kSlabShift);
retry:
  asm volatile goto(STRATA_RSEQ_DESCRIPTOR
                    "cmp %[wanted], %[slab]\n"
                    "b.ne %l[elsewhere]\n"
                    "mov %w[seen], #1\n"
                    "2:\n"
                    : [slab] "=&r"(slab), [seen] "=&r"(seen), [a] "=&r"(a), [b] "=&r"(b)
                    : [slabs] "r"(slabs), [wanted] "r"(wanted), [area] "r"(r.area_offset),
                      [index] "r"(r.index_offset)
                    : "memory", "cc"
                    : elsewhere, aborted);
  return true;
aborted:
  goto retry;
elsewhere:
  return FromLabel(false);
}

}  // namespace strata
