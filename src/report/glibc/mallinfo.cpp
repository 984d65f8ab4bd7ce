// glibc's functions that tell about the heap, declared in malloc.h: the mallinfo family. Sits in
// report.
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include <cstddef>
#include <new>

#include "base/errno_keeper.h"
#include "malloc/guard.h"
#include "malloc/runtime.h"
#include "os/side_stack.h"
#include "profile/scratch_array.h"
#include "report/stats_collect.h"

#define STRATA_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using namespace strata;

bool Ready() { return EnsureStarted() == RunState::kReady; }

// stdio writes by libc's functions, which would act on a cancellation that is pending.
class NoCancellation {
 public:
  NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() { pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

int ToInt(size_t n) { return n > INT_MAX ? INT_MAX : static_cast<int>(n); }

void FillMallinfo(struct mallinfo2* m) {
  HeapStats s;
  CollectCounts(s);
  const LargeBlockCounts large = TheRuntime().heap.large().counts();
  // Small guarded blocks are metadata elsewhere, but a program looks here for what it asked for.
  const size_t guarded = SmallGuards().live_bytes();
  m->arena = s.mapped - s.page_heap.allocator.free + guarded;
  m->hblks = large.blocks;
  m->hblkhd = large.pages.raw() * kPageSize;
  m->uordblks = s.live + s.internal_slack + guarded;
  m->fsmblks = s.caches();
  m->fordblks = s.caches() + s.free_resident();
  m->keepcost = s.page_heap_free;
}

// In pages of its own: a file may take its time, and is not written to with signals blocked.
// glibc's XML shape with our totals; the classes are its "sizes".
bool WriteXml(const HeapStats& s, FILE* out) {
  bool ok = fprintf(out, "<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n") > 0;
  for (size_t c = 1; c < kNumClasses; ++c) {
    const ClassStats& k = s.classes[c];
    if (k.spans == 0) continue;
    const size_t size = InfoOf(static_cast<SizeClass>(c)).size;
    const size_t free_objects = k.central + k.transfer + k.cpu;
    ok &= fprintf(out, "<size from=\"%zu\" to=\"%zu\" total=\"%zu\" count=\"%zu\"/>\n", size, size,
                  free_objects * size, free_objects) > 0;
  }
  ok &= fprintf(out,
                "</sizes>\n<total type=\"fast\" count=\"0\" size=\"%zu\"/>\n<total type=\"rest\" "
                "count=\"0\" size=\"%zu\"/>\n"
                "<system type=\"current\" size=\"%zu\"/>\n<aspace type=\"total\" "
                "size=\"%zu\"/>\n</heap>\n</malloc>\n",
                s.caches(), s.free_resident(), s.mapped - s.page_heap.allocator.free, s.mapped) > 0;
  return ok;
}

}  // namespace

STRATA_EXPORT struct mallinfo2 mallinfo2(void) noexcept {
  struct mallinfo2 m = {};
  if (Ready()) OnSideStack([&m] { FillMallinfo(&m); });
  return m;
}

STRATA_EXPORT struct mallinfo mallinfo(void) noexcept {
  const struct mallinfo2 m = mallinfo2();
  struct mallinfo old = {};
  old.arena = ToInt(m.arena);
  old.hblks = ToInt(m.hblks);
  old.hblkhd = ToInt(m.hblkhd);
  old.uordblks = ToInt(m.uordblks);
  old.fsmblks = ToInt(m.fsmblks);
  old.fordblks = ToInt(m.fordblks);
  old.keepcost = ToInt(m.keepcost);
  return old;
}

STRATA_EXPORT void malloc_stats(void) noexcept {
  if (!Ready()) return;
  const ErrnoKeeper keep;
  ScratchArray<char> text;
  if (FillText(text)) PrintText(text);
}

STRATA_EXPORT int malloc_info(int options, FILE* out) noexcept {
  if (options != 0) {
    errno = EINVAL;
    return -1;
  }
  ScratchArray<char> memory;
  if (!memory.Reserve(sizeof(HeapStats))) return -1;
  auto* s = ::new (memory.data()) HeapStats();
  if (Ready()) OnSideStack([s] { CollectCounts(*s); });
  const NoCancellation no_cancellation;
  return WriteXml(*s, out) ? 0 : -1;
}
