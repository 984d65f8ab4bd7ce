// Push and pop on the current vCPU's slab as restartable sequences: the kernel sends a thread that
// is preempted, migrated or signalled between the start and the committing store to the abort
// label, so no lock and no atomic instruction is needed. Sits in cache; x86-64. The stress test in
// tests/cache runs the same code with the descriptor left out, to show that it would catch a broken
// one.
//
// Each sequence: publish the descriptor in rseq_cs, read the vCPU id, work, commit with one store.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cache/freed_mark.h"
#include "cache/slab.h"
#include "os/rseq.h"
#include "span/size_classes.h"

// Tells the kernel that a sequence begins. The control of the stress test leaves it out.
#ifndef STRATA_RSEQ_PUBLISH
#define STRATA_RSEQ_PUBLISH  \
  "lea 3b(%%rip), %[slab]\n" \
  "mov %[slab], %%fs:8(%[area])\n"
#endif

// The descriptor (start, length, abort address) and the abort trampoline, which must be preceded by
// the signature that glibc registered.
#define STRATA_RSEQ_DESCRIPTOR            \
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
  ".popsection\n" STRATA_RSEQ_PUBLISH     \
  "1:\n"                                  \
  "mov %[index], %[slab]\n"               \
  "movl %%fs:(%[slab]), %k[slab]\n"       \
  "shl $16, %[slab]\n"                    \
  "add %[slabs], %[slab]\n"

static_assert(strata::kSlabShift == 16 && strata::kRseqCsOffset == 8);
static_assert(strata::kSlabBeginOffset == 8 && strata::kSlabEndOffset == 10);
static_assert(strata::kSlabArrayOffset == 16 && strata::kSlabFactorOffset == 12);
static_assert(strata::kFreedMarkOffset == 4);
static_assert(strata::kStartBound == 0x40000 && sizeof(strata::PageEntry) == 4);

namespace strata {

// What the sequences need to know of the process; set once at start.
struct RseqSlabs {
  ptrdiff_t area_offset;
  ptrdiff_t index_offset;
  FreedMark mark = FreedMark::kNone;
};

// The value a sequence returns by way of a label. gcc 12 takes the paths that leave an `asm goto`
// with outputs by label and by falling through for one where it can merge their results, and then
// returns an output that was never set; a value it can't see through keeps the paths apart.
template <class T>
STRATA_ALWAYS_INLINE T FromLabel(T value) {
  asm volatile("" : "+r"(value));
  return value;
}

// The newest object of the class on this vCPU, or null when there is none.
STRATA_ALWAYS_INLINE void* RseqPop(const RseqSlabs& r, void* slabs, SizeClass c) {
  uintptr_t slab;
  void* object;    // holds the fill until the object is loaded
  ptrdiff_t area;  // holds the array's address once the descriptor is published
  const size_t header = Raw(c) * sizeof(SlabHeader);
retry:
  area = r.area_offset;
  asm volatile goto(STRATA_RSEQ_DESCRIPTOR
                    "movzwl (%[slab],%[header]), %k[object]\n"
                    "cmp 8(%[slab],%[header]), %w[object]\n"
                    "jbe %l[empty]\n"
                    "mov 16(%[slab],%[header]), %[area]\n"
                    "mov -8(%[area],%[object],8), %[object]\n"
                    "addq $0xffff, (%[slab],%[header])\n"  // fill - 1, pops + 1
                    "2:\n"
                    : [slab] "=&r"(slab), [object] "=&r"(object), [area] "+&r"(area)
                    : [slabs] "r"(slabs), [header] "r"(header), [index] "m"(r.index_offset)
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

enum class PushResult : uint8_t { kPushed, kNoRoom, kSuspect };

// `entries` of the page map, and the one of the object's page. Calls `otherwise` with the reason if
// the object was not pushed. kSuspect: the object has the mark of those that are free, or no object
// starts there. The mark alone proves no double free: a sequence that is sent back to its start
// after it has set the mark finds its own.
template <class Otherwise>
STRATA_ALWAYS_INLINE void RseqPush(const RseqSlabs& r, void* slabs, const PageEntry* entries,
                                   size_t page, void* object, Otherwise otherwise) {
  uintptr_t slab;
  void** array;     // first tells whether an object starts there
  uint64_t header;  // its offset, then the mark
  ptrdiff_t area;   // holds the fill once the descriptor is published
retry:
  area = r.area_offset;
  asm volatile goto(
      STRATA_RSEQ_DESCRIPTOR
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
      "mov %[mark], %k[header]\n"
      "mov 16(%[slab]), %[array]\n"
      "cmp %k[header], 4(%[object])\n"
      "je %l[suspect]\n"
      "mov %[object], (%[array],%[area],8)\n"
      "mov %k[header], 4(%[object])\n"
      "incq (%[slab])\n"
      "2:\n"
      : [slab] "=&r"(slab), [array] "=&r"(array), [header] "=&r"(header), [area] "+&r"(area)
      : [slabs] "r"(slabs), [entries] "r"(entries), [page] "r"(page), [object] "r"(object),
        [index] "m"(r.index_offset), [mark] "m"(r.mark)
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
  uint64_t word;
  uint64_t count;
  uint64_t left;  // rcx, which `rep movsq` counts down
  const void* from;
  void* to;
  const size_t header = Raw(c) * sizeof(SlabHeader);
retry:
  to = out;
  asm volatile goto(STRATA_RSEQ_DESCRIPTOR
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
                    "mov %[count], %[left]\n"
                    "rep movsq\n"
                    "mov %[word], (%[slab],%[header])\n"
                    "2:\n"
                    : [slab] "=&r"(slab), [word] "=&r"(word), [count] "=&r"(count),
                      [left] "=&c"(left), [from] "=&S"(from), [to] "+&D"(to)
                    : [slabs] "m"(slabs), [header] "r"(header), [area] "r"(r.area_offset),
                      [index] "m"(r.index_offset), [n] "m"(n)
                    : "memory", "cc"
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
  uint64_t word;
  uint64_t count;
  uint64_t left;
  const void* from;
  void* to;
  const size_t header = Raw(c) * sizeof(SlabHeader);
retry:
  from = objects;
  asm volatile goto(STRATA_RSEQ_DESCRIPTOR
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
                    "mov %[count], %[left]\n"
                    "rep movsq\n"
                    "mov %[word], (%[slab],%[header])\n"
                    "2:\n"
                    : [slab] "=&r"(slab), [word] "=&r"(word), [count] "=&r"(count),
                      [left] "=&c"(left), [from] "+&S"(from), [to] "=&D"(to)
                    : [slabs] "m"(slabs), [header] "r"(header), [area] "r"(r.area_offset),
                      [index] "m"(r.index_offset), [n] "m"(n)
                    : "memory", "cc"
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
  uint32_t seen;
  const uintptr_t wanted = reinterpret_cast<uintptr_t>(slabs) + (vcpu << kSlabShift);
retry:
  asm volatile goto(STRATA_RSEQ_DESCRIPTOR
                    "cmp %[wanted], %[slab]\n"
                    "jne %l[elsewhere]\n"
                    "movl $1, %[seen]\n"
                    "2:\n"
                    : [slab] "=&r"(slab), [seen] "=&r"(seen)
                    : [slabs] "r"(slabs), [wanted] "r"(wanted), [area] "r"(r.area_offset),
                      [index] "m"(r.index_offset)
                    : "memory", "cc"
                    : elsewhere, aborted);
  return true;
aborted:
  goto retry;
elsewhere:
  return FromLabel(false);
}

// The Ops of the process's CpuCache: these sequences on the calling thread.
struct RseqOps {
  RseqSlabs where{};
  void* slabs = nullptr;
  RseqInfo info{};

  void* Pop(SizeClass c) const { return RseqPop(where, slabs, c); }
  // Of an object that is known to be one, and not to be free.
  PushResult Push(SizeClass c, void* object) const {
    const auto at = reinterpret_cast<uintptr_t>(object);
    const PageEntry entry = EntryFor(c, at, at & ~(kPageSize - 1));
    PushResult result = PushResult::kSuspect;
    for (int i = 0; i < 3 && result == PushResult::kSuspect; ++i) {
      WipeMark(object);
      result = PushResult::kPushed;
      RseqPush(where, slabs, &entry, 0, object, [&](PushResult why) { result = why; });
    }
    return result;
  }
  // For one that goes into a cache by another way.
  void Mark(void* object) const { SetMark(object, where.mark); }
  size_t PopBatch(SizeClass c, void** out, size_t n) const {
    return RseqPopBatch(where, slabs, c, out, n);
  }
  size_t PushBatch(SizeClass c, void* const* objects, size_t n) const {
    return RseqPushBatch(where, slabs, c, objects, n);
  }
  size_t vcpu() const { return CurrentVcpu(info); }
  bool IsOn(size_t vcpu) const { return RseqIsOn(where, slabs, vcpu); }
  bool MayFence() const { return MayFenceRseq(); }
  bool Fence() const { return FenceRseq(); }
};

}  // namespace strata
