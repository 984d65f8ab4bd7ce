// See clock.h.
#include "os/clock.h"

#include <atomic>

#include "base/check.h"
#include "os/libc_symbol.h"

namespace strata {
namespace {

using ClockFunction = int (*)(clockid_t, timespec*);
std::atomic<ClockFunction> g_clock{nullptr};

// libc's own, or what the name is bound to where that can't be told.
STRATA_NOINLINE ClockFunction FindClock() {
  auto clock = reinterpret_cast<ClockFunction>(FindInLibc("clock_gettime"));
  if (clock == nullptr) clock = clock_gettime;
  g_clock.store(clock, std::memory_order_relaxed);
  return clock;
}

}  // namespace

uint64_t ReadClock(clockid_t clock) {
  constexpr uint64_t kSecondNs = 1'000'000'000;
  const ClockFunction known = g_clock.load(std::memory_order_relaxed);
  const ClockFunction read = STRATA_LIKELY(known != nullptr) ? known : FindClock();
  timespec now{};
  read(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * kSecondNs + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace strata
