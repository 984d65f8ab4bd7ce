// When the tiers give memory back: a step about once a second, from the background thread. A
// program that makes few calls for some ticks is idle, and its caches settle; one that does not use
// its CPUs either rests, and its spans are searched soon; a busy one's are searched now and then,
// where nothing touched them for long. What each step does to the tiers is in release_steps.h. Sits
// in heaps.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cache/transfer_cache.h"
#include "hugepage/break_policy.h"
#include "hugepage/demand_tracker.h"

namespace strata {

// How much the program computed since the last tick.
enum class CpuUse : uint8_t { kLittle, kMuch };

// Whether a tick may give memory back at all.
enum class Giving : uint8_t { kOff, kOn };

struct HeapTick {
  size_t released_bytes = 0;
  bool idle = false;
};

// Steps: uint64_t NowNs(); uint64_t Moves(), batches and large blocks that moved so far;
// void BeginTick(uint32_t tick), the time that spans are stamped with; void SettleCaches(
// DrainScope); void GiveEmptySpans(uint32_t before), those not used since;
// bool SpansChanged(), so that a search may find what the last did not; size_t LeastGain(Program),
// below which no hugepage is broken; void Survey(uint32_t before), then size_t ReleaseSurveyed(
// uint32_t before, size_t limit, Program), of spans untouched since; size_t ReleasePages(
// CallRate, Program).
template <class Steps>
class ReleaseSchedule {
 public:
  explicit ReleaseSchedule(Steps& steps) : steps_(steps) {}
  ReleaseSchedule(const ReleaseSchedule&) = delete;
  ReleaseSchedule& operator=(const ReleaseSchedule&) = delete;

  HeapTick Tick(Giving giving, CpuUse cpu) {
    steps_.BeginTick(++tick_);
    const uint64_t moves = steps_.Moves();
    idle_ticks_ = moves - last_moves_ < kIdleMoves ? idle_ticks_ + 1 : 0;
    last_moves_ = moves;
    HeapTick result;
    result.idle = idle_ticks_ != 0;
    const bool settled = idle_ticks_ >= kSettleTicks;
    steps_.SettleCaches(settled ? DrainScope::kAll : DrainScope::kUnused);
    if (giving == Giving::kOff) return result;
    GiveEmptySpans();
    // Calls that the caches serve leave no trace below; using its CPUs, the program works all the
    // same, and has its hugepages under its feet.
    const Program program = settled && cpu == CpuUse::kLittle ? Program::kRests : Program::kWorks;
    rest_ticks_ = program == Program::kRests ? rest_ticks_ + 1 : 0;
    result.released_bytes += ReleaseInSpans(program);
    result.released_bytes +=
        steps_.ReleasePages(settled ? CallRate::kIdle : CallRate::kBusy, program);
    last_moves_ = steps_.Moves();  // our own work is not the program's
    return result;
  }

 private:
  // A tick with fewer moves than this between the central lists and the caches counts as idle, so
  // that a health check or a timer does not keep a resting server's memory resident.
  static constexpr uint64_t kIdleMoves = 256;
  static constexpr uint32_t kSettleTicks = 2;  // an idle program's caches are emptied after so many
  static constexpr uint32_t kIdleTicks = 3;    // its spans are searched after so many
  static constexpr uint32_t kBusyTicks = 30;   // a busy one's, when untouched for so many
  static constexpr size_t kBusyBytes = 64 << 20;  // given back a search by each class of a busy one
  static constexpr uint64_t kSurveyRest = 50;     // times as long as the last survey took

  void GiveEmptySpans() {
    const bool idle = idle_ticks_ >= kIdleTicks;
    if (tick_ > (idle ? kIdleTicks - 1 : kBusyTicks)) steps_.GiveEmptySpans(tick_ - (idle ? 1 : 2));
  }

  size_t ReleaseInSpans(Program program) {
    const bool rests = rest_ticks_ > kIdleTicks - kSettleTicks;
    if (!rests && tick_ % kBusyTicks != 0) return 0;
    const uint32_t untouched = rests ? kIdleTicks - 1 : kBusyTicks;
    const size_t least_gain = steps_.LeastGain(program);
    size_t released = 0;
    if (tick_ > untouched && steps_.NowNs() >= next_survey_ns_ &&
        (steps_.SpansChanged() || least_gain < surveyed_for_)) {
      released = Search(tick_ - untouched, rests ? SIZE_MAX : kBusyBytes, program);
      surveyed_for_ = least_gain;
    }
    if (surveyed_for_ < least_gain) surveyed_for_ = least_gain;
    return released;
  }

  // First all spans are surveyed, so that each hugepage is judged by all that it would free.
  size_t Search(uint32_t before, size_t limit, Program program) {
    const uint64_t begin = steps_.NowNs();
    steps_.Survey(before);
    // What follows is done once for each page that goes; a survey may be in vain.
    const uint64_t end = steps_.NowNs();
    next_survey_ns_ = end + (end - begin) * kSurveyRest;
    return steps_.ReleaseSurveyed(before, limit, program);
  }

  Steps& steps_;
  uint32_t tick_ = 1;
  uint32_t idle_ticks_ = 0;  // in a row, with few moves
  uint32_t rest_ticks_ = 0;  // in a row, settled and computing little
  uint64_t last_moves_ = 0;
  uint64_t next_survey_ns_ = 0;
  size_t surveyed_for_ = 0;  // the gain that the last survey's hugepages were judged by
};

}  // namespace strata
