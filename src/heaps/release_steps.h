// What giving memory back does to the tiers, step by step: release_schedule.h says when, and users
// and limits ask for it at once. Sits in heaps. ReleaseNow, EmptyCaches and GiveUnused may run on
// any thread, the rest on the background thread alone.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "cache/transfer_cache.h"
#include "hugepage/break_policy.h"
#include "hugepage/demand_tracker.h"
#include "span/size_classes.h"

namespace strata {

template <class Kernel, class PageHeap, class Large, class Central, class Transfer>
class ReleaseSteps {
 public:
  ReleaseSteps(Kernel& kernel, PageHeap& page_heap, Large& large, Central& central,
               Transfer& transfer)
      : kernel_(kernel),
        page_heap_(page_heap),
        large_(large),
        central_(central),
        transfer_(transfer) {}
  ReleaseSteps(const ReleaseSteps&) = delete;
  ReleaseSteps& operator=(const ReleaseSteps&) = delete;

  uint64_t NowNs() { return kernel_.NowNs(); }
  uint64_t Moves() { return central_.moves() + large_.counts().moves; }
  void BeginTick(uint32_t tick) { central_.SetTick(tick); }
  void SettleCaches(DrainScope scope) {
    large_.Tick();
    DrainTransfer(scope);
  }
  void GiveEmptySpans(uint32_t before) {
    central_.ForEach([before](auto& list) { list.ReleaseEmpty(before); });
  }
  bool SpansChanged() {
    bool changed = SpansWereRebuilt();
    central_.ForEach([&changed](auto& list) { changed |= list.GivenSinceRelease(); });
    return changed;
  }
  size_t LeastGain(Program program) const { return page_heap_.LeastGainNow(program); }
  void Survey(uint32_t before) {
    page_heap_.BeginSurvey();
    for (size_t c = 1; c < kNumClasses; ++c) {
      auto* list = central_.Find(static_cast<SizeClass>(c));
      idle_[c] = list != nullptr && list->SurveyIdle(before);
    }
    central_.groups().SurveyIdle(before);
  }
  size_t ReleaseSurveyed(uint32_t before, size_t limit, Program program) {
    size_t released = 0;
    const auto release = [&](auto& list) {
      list.SearchAnew();
      released += list.ReleaseIdle(before, limit, program);
    };
    for (size_t c = 1; c < kNumClasses; ++c)
      if (idle_[c]) release(*central_.Find(static_cast<SizeClass>(c)));
    central_.groups().ForEachSurveyed(release);
    return released;
  }
  size_t ReleasePages(CallRate calls, Program program) { return page_heap_.Tick(calls, program); }

  // Sends what lies unused in the tiers above the page heap down to it.
  void GiveUnused() {
    DrainTransfer(DrainScope::kUnused);
    GiveEmptySpans(UINT32_MAX);
  }
  // Sends all that is free in the tiers above the page heap down to it.
  void EmptyCaches() {
    DrainTransfer(DrainScope::kAll);
    GiveEmptySpans(UINT32_MAX);
    large_.ReturnAll();
  }

  // Gives back what can be given back, at least `bytes` if there is that much.
  size_t ReleaseNow(size_t bytes) {
    EmptyCaches();
    size_t released = page_heap_.ReleaseNow(bytes);
    if (SpansWereRebuilt()) central_.ForEach([](auto& list) { list.SearchAnew(); });
    central_.ForEach([&released, bytes](auto& list) {
      if (released < bytes)
        released += list.ReleaseIdle(UINT32_MAX, bytes - released, Program::kIsShort);
    });
    return released;
  }

 private:
  void DrainTransfer(DrainScope scope) {
    for (size_t c = 1; c < kNumClasses; ++c)
      transfer_.DrainUnused(static_cast<SizeClass>(c), scope);
  }
  // Since the last call: what was given back inside of spans may have memory again.
  bool SpansWereRebuilt() {
    const uint32_t rebuilt = page_heap_.rebuilt_in_use();
    return rebuilt_.exchange(rebuilt, std::memory_order_relaxed) != rebuilt;
  }

  Kernel& kernel_;
  PageHeap& page_heap_;
  Large& large_;
  Central& central_;
  Transfer& transfer_;
  std::atomic<uint32_t> rebuilt_{0};  // of the page heap's, what the central lists know
  bool idle_[kMaxClasses] = {};       // classes in which the last survey found something
};

}  // namespace strata
