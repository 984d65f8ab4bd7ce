// See clock.h.
#include "os/clock.h"

#include <atomic>

namespace strata {
namespace {

std::atomic<ClockFunction> g_clock{nullptr};

}  // namespace

void UseClock(ClockFunction clock) { g_clock.store(clock, std::memory_order_relaxed); }

uint64_t ReadClock(clockid_t clock) {
  constexpr uint64_t kSecondNs = 1'000'000'000;
  const ClockFunction read = g_clock.load(std::memory_order_relaxed);
  timespec now{};
  if (read != nullptr) {
    read(clock, &now);
  } else {
    clock_gettime(clock, &now);
  }
  return static_cast<uint64_t>(now.tv_sec) * kSecondNs + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace strata
