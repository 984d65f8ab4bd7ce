// What src/regions asks of the process for domains of moving objects, given by libc: so tests of
// CrestDB run on their own malloc, a sanitizer's too. Stands for src/regions/hot_kernel.cpp and for
// the library's thread.
#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <thread>

#include "base/units.h"
#include "malloc/background.h"
#include "malloc/background_duties.h"
#include "malloc/background_thread.h"
#include "regions/hot_kernel.h"

namespace strata {
namespace {

void* Take(void*, size_t bytes, Hotness) {
  return std::aligned_alloc(kHugePageSize, RoundUp(bytes, kHugePageSize));
}
void Give(void*, void* at, size_t) { std::free(at); }
bool Advise(void*, void*, size_t, PageAdvice) { return true; }
size_t Resident(void*, void*, size_t bytes) { return bytes; }
uint64_t NowNs(void*) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}
int64_t Headroom(void*) { return INT64_MAX; }
uint64_t FreeSwap(void*) { return uint64_t{1} << 30; }
bool Reclaim(void*, uint64_t) { return true; }
const char* Watch(void*, AddressRange, WatchOf) { return "this is a test"; }
void Unwatch(void*) {}
uint32_t Pressure(void*) { return 0; }
void Pause(void*, uint64_t) { std::this_thread::yield(); }

}  // namespace

constinit const HotMemory kProcessHotMemory = {Take,    Give,     Advise,   Resident, NowNs,
                                               NowNs,   Headroom, FreeSwap, Reclaim,  Watch,
                                               Unwatch, Pressure, Pause,    nullptr};

const char* WhyGuidesCannotHold(uint64_t, uintptr_t) { return nullptr; }
void ForgetWatchInChild() {}
bool HugepagesAreOff() { return false; }
uint64_t AddressUntagMask() { return ~uint64_t{0}; }

bool BackgroundSelf::MayGoOn() const { return true; }
bool BackgroundThreadIsAway() { return false; }
bool MayStartThread(ThreadFor) { return true; }

namespace {

std::atomic<bool> g_runs{false};

}  // namespace

bool SecondThread::Start(void (*run)(), void (*)()) {
  if (!g_runs.exchange(true, std::memory_order_acq_rel)) std::thread(run).detach();
  return true;
}
bool SecondThread::Runs() { return g_runs.load(std::memory_order_acquire); }
void SecondThread::Begin() {}
bool SecondThread::MustEnd() { return false; }
void SecondThread::Ended() { g_runs.store(false, std::memory_order_release); }
void SecondThread::GoOnInChild() { g_runs.store(true, std::memory_order_relaxed); }
void SecondThread::ForgetInChild() { g_runs.store(false, std::memory_order_relaxed); }

}  // namespace strata
