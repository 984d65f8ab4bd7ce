// The thread's side of sampling. See sampling.h.
#include "malloc/sampling.h"

#include <sched.h>

#include "base/errno_keeper.h"
#include "malloc/grouped.h"
#include "malloc/guard.h"
#include "malloc/lifetimes.h"
#include "malloc/predicted_path.h"
#include "profile/script_frames.h"
#include "profile/stack_walk.h"
#include "profile/usdt.h"

namespace strata {
namespace {

std::atomic<uint32_t> g_threads{0};

// By the process's seed and the thread's number, which also tells threads apart that lived one
// after the other in the same memory.
void SeedThread(const Runtime& r, ThreadState& t) {
  t.number = (g_threads.fetch_add(1, std::memory_order_relaxed) + 1) & 0x07ffffff;
  t.countdown.Seed(r.kernel.sampling_seed() + t.number);
}

SampleEvent EventAt(Runtime& r, const void* p) {
  if (t_state.number == 0) SeedThread(r, t_state);
  const int cpu = sched_getcpu();
  return {reinterpret_cast<uintptr_t>(p), r.kernel.NowNs(), t_state.number,
          static_cast<uint32_t>(cpu < 0 ? 0 : cpu)};
}

bool IsOnSampledPage(const Runtime& r, const void* p) {
  const size_t offset = reinterpret_cast<uintptr_t>(p) - r.kernel.base();
  return offset < r.kernel.mapped_end() &&
         IsSampledPage(r.heap.page_map().EntryOf(PageId(offset >> kPageShift)));
}

// The block became a sample by the last of `counted` bytes.
STRATA_NOINLINE void Take(Runtime& r, void* p, size_t size, size_t counted, const SampleSite* site,
                          const WalkStart* from = nullptr) {
  const ErrnoKeeper keep;
  const SampleRate rate = r.sampler.rate();
  if (rate.interval == 0) return;  // switched off this moment
  if (t_state.at_work) return;     // a block of the library's own thread
  uintptr_t stack[kMaxStackDepth];
  const ScriptLines lines =
      r.sampler.StacksAreScarce() ? ScriptLines::kOfCallersDef : ScriptLines::kCurrent;
  const size_t depth = WalkSampledStack(lines, stack, kMaxStackDepth, from);
  SampleEvent event = EventAt(r, p);
  event.site = site;
  SampleCountdown& countdown = t_state.countdown;
  const double expected = static_cast<double>(counted) / countdown.IntervalOfSample(rate);
  countdown.NoteSample(event.now_ns, rate);
  double weight = 0;
  if (!r.sampler.Add(event, size, expected, stack, depth, &weight)) return;
  ProbeAlloc(p, size, weight);
  LifetimeLearner::EndDenseIfFull(r);
}

// A walk of its own, so that its arrays are gone before the sampler goes deeper.
STRATA_NOINLINE void FindSite(const AllocationSite& from, size_t size, SampleSite& out) {
  constexpr size_t kFrames = SampleSite::kMostFrames + 1;
  uintptr_t frames[kFrames];
  uintptr_t places[kFrames];
  const size_t n = WalkStack(frames, kFrames, places);
  out.key = Raw(from.KeyOf(ClassOfSize(size)));
  for (size_t i = 1; i < n; ++i) {
    const uintptr_t up = (places[i] - from.frame()) / sizeof(uintptr_t);
    if (places[i] > from.frame() && up <= UINT16_MAX)
      out.words_up[i - 1] = static_cast<uint16_t>(up);
  }
}

STRATA_NOINLINE void TakePlaced(Runtime& r, void* p, size_t size, const AllocationSite& at,
                                const WalkStart* from) {
  SampleSite site;
  FindSite(at, size, site);
  Take(r, p, size, size, &site, from);
}

}  // namespace

bool CountBytesSlow(size_t bytes) {
  ThreadState& t = t_state;
  if (STRATA_UNLIKELY(t.number == 0)) SeedThread(TheRuntime(), t);
  const bool fast =
      (t.slabs != nullptr || BindThread()) && t.scope == nullptr && !Predicts() && Contexts() == 0;
  return t.countdown.Spend(bytes, TheRuntime().sampler.rate(),
                           fast ? StretchesForGuards() : Stretches::kNone);
}

void* SampleTaken(Runtime& r, void* p, size_t size, AllocationSite site, const WalkStart* from) {
  const bool learns = r.options.lifetimes != LifetimeChoice::kOff;
  if (learns && site.is_known() && size <= kMaxClassSize) {
    TakePlaced(r, p, size, site, from);
  } else {
    Take(r, p, size, size, nullptr, from);
  }
  return p;
}

STRATA_NOINLINE void NoteStack(Runtime& r, size_t size, const SampleSite& site) {
  uintptr_t stack[kMaxStackDepth];
  const size_t depth = WalkSampledStack(ScriptLines::kOfCallersDef, stack, kMaxStackDepth);
  r.sampler.NotePlace(site, size, stack, depth);
}

void PlaceMet(Runtime& r, size_t size, AllocationSite from) {
  const ErrnoKeeper keep;
  if (r.sampler.rate().interval == 0 || t_state.at_work) return;
  if (!LifetimeLearner::SeeksStacks()) return;
  SampleSite site;
  FindSite(from, size, site);
  NoteStack(r, size, site);
}

void SampleFreed(Runtime& r, void* p) {
  if (!r.sampler.MayHold(reinterpret_cast<uintptr_t>(p))) return;
  const ErrnoKeeper keep;
  if (r.sampler.Remove(EventAt(r, p))) ProbeFree(p);
}

void Resized(Runtime& r, void* from, void* to, size_t old_counted, size_t counted, size_t size) {
  const size_t grown = counted > old_counted ? counted - old_counted : 0;
  const SampleRate rate = r.sampler.rate();
  const double interval = t_state.countdown.IntervalInForce(rate);
  const bool due = grown != 0 && CountBytes(grown);
  if (STRATA_UNLIKELY(IsOnSampledPage(r, from))) {
    const double more = rate.interval == 0 ? 0 : static_cast<double>(grown) / interval;
    double weight = 0;
    if (r.sampler.Move(reinterpret_cast<uintptr_t>(from), reinterpret_cast<uintptr_t>(to), size,
                       more, &weight)) {
      // The probes know no realloc: the old block goes and the new one comes, wherever it lies.
      ProbeFree(from);
      ProbeAlloc(to, size, weight);
      return;
    }
  }
  if (STRATA_UNLIKELY(due)) Take(r, to, size, counted, nullptr);
}

}  // namespace strata
