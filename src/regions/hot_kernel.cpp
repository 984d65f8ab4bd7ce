// What domains of moving objects ask of the process and the kernel. See hot_kernel.h.
#include "regions/hot_kernel.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "base/errno_keeper.h"
#include "base/units.h"
#include "malloc/runtime.h"
#include "os/cgroup.h"
#include "os/clock.h"
#include "os/confinement.h"
#include "os/damon.h"
#include "os/resident.h"
#include "os/thp_mode.h"
#include "strata/raw_io.h"

namespace strata {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;

// Beside a heap that stands down for a sanitizer: straight from the kernel.
void* MapAligned(size_t bytes) {
  const size_t room = bytes + kHugePageSize;
  void* p = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  const auto start = reinterpret_cast<uintptr_t>(p);
  const uintptr_t at = RoundUp(start, kHugePageSize);
  const uintptr_t end = at + RoundUp(bytes, kNativePageSize);
  if (at != start) munmap(p, at - start);
  if (end != start + room) munmap(reinterpret_cast<void*>(end), start + room - end);
  return reinterpret_cast<void*>(at);
}

void* Take(void*, size_t bytes, Hotness hotness) {
  const ErrnoKeeper keep;
  if (EnsureStarted() != RunState::kReady) return MapAligned(bytes);
  return TheRuntime()
      .heap.large()
      .Take(bytes, kHugePageSize, {.density = Density::kSparse, .hotness = hotness})
      .address;
}

void Give(void*, void* at, size_t bytes) {
  const ErrnoKeeper keep;
  if (CurrentState() != RunState::kReady) {
    munmap(at, RoundUp(bytes, kNativePageSize));
    return;
  }
  auto& large = TheRuntime().heap.large();
  large.Give(large.At(at));
}

bool Advise(void*, void* at, size_t bytes, PageAdvice advice) {
  if (!MayAdvise()) {
    // What was shut before has to be opened, and mapped anew loses nothing that is still wanted.
    constexpr int kAnew = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    return advice == PageAdvice::kOpen &&
           mmap(at, bytes, PROT_READ | PROT_WRITE, kAnew, -1, 0) == at;
  }
  if (advice == PageAdvice::kShut || advice == PageAdvice::kOpen) {
    const int rights = advice == PageAdvice::kOpen ? PROT_READ | PROT_WRITE : PROT_NONE;
    return raw::Call(SYS_mprotect, raw::Word(at), static_cast<long>(bytes), rights) == 0;
  }
  constexpr int kAdvice[] = {MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_COLD, MADV_PAGEOUT,
                             MADV_DONTNEED};
  return raw::Call(SYS_madvise, raw::Word(at), static_cast<long>(bytes),
                   kAdvice[static_cast<int>(advice)]) == 0;
}

size_t Resident(void*, void* at, size_t bytes) {
  if (!MayAdvise()) return bytes;
  unsigned char seen[kNativePerHugePage / 4];
  constexpr size_t kStep = sizeof seen * kNativePageSize;
  size_t pages = 0;
  for (size_t done = 0; done < bytes; done += kStep) {
    const size_t now = bytes - done < kStep ? bytes - done : kStep;
    const size_t n = (now + kNativePageSize - 1) / kNativePageSize;
    if (!ResidentPages(reinterpret_cast<uintptr_t>(at) + done, n, seen)) return bytes;
    for (size_t i = 0; i < n; ++i) pages += seen[i] & 1;
  }
  return pages * kNativePageSize;
}

uint64_t NowNs(void*) { return ReadClock(CLOCK_MONOTONIC); }
uint64_t ThreadCpuNs(void*) { return ReadClock(CLOCK_THREAD_CPUTIME_ID); }

int64_t Headroom(void*) {
  return CurrentState() == RunState::kReady ? TheRuntime().kernel.Headroom() : INT64_MAX;
}

uint64_t FreeSwap(void*) {
  if (!MayOpenFiles()) return 0;
  struct sysinfo info{};
  if (raw::Call(SYS_sysinfo, raw::Word(&info)) != 0) return 0;
  return uint64_t{info.freeswap} * info.mem_unit;
}

bool ReclaimFromCgroup(void*, uint64_t bytes) {
  if (!MayOpenFiles()) return false;
  CgroupWatch cgroup;
  cgroup.Find("/sys/fs/cgroup", "/proc/self/cgroup");
  return cgroup.Reclaim(bytes);
}

// DAMON knows one range of a process, not domains: it watches from the first domain that asks to
// the last, and all that any of them has asked for.
constexpr Damon kDamon("/sys/kernel/mm/damon/admin");

// By a futex that nobody wakes: any filter allows that.
void PauseNs(void*, uint64_t ns) {
  static constinit std::atomic<uint32_t> never{0};
  const timespec wait{static_cast<time_t>(ns / kSecondNs), static_cast<long>(ns % kSecondNs)};
  raw::Call(SYS_futex, raw::Word(&never), FUTEX_WAIT_PRIVATE, 0, raw::Word(&wait));
}

struct Watched {
  uint32_t domains = 0;
  AddressRange range{UINTPTR_MAX, 0};

  void Add(AddressRange r) { range = {std::min(range.begin, r.begin), std::max(range.end, r.end)}; }
};
constinit Watched g_watched;

// One at a time looks at DAMON's files and g_watched. No lock: the kernel may take seconds over a
// change, and a fork waits for locks. In the child nobody is here (ForgetWatchInChild).
constinit std::atomic<bool> g_is_busy{false};
class WatchTurn {
 public:
  WatchTurn() {
    while (g_is_busy.exchange(true, std::memory_order_acquire)) PauseNs(nullptr, 1'000'000);
  }
  ~WatchTurn() { g_is_busy.store(false, std::memory_order_release); }
  WatchTurn(const WatchTurn&) = delete;
  WatchTurn& operator=(const WatchTurn&) = delete;
};

template <class F>
auto WithCgroup(F f) {
  CgroupWatch cgroup;
  cgroup.Find("/sys/fs/cgroup", "/proc/self/cgroup");
  return f(static_cast<uint64_t>(raw::Call(SYS_getpid)), cgroup.memory_group());
}

const char* Watch(void*, AddressRange range, WatchOf of) {
  if (!MayOpenFiles()) return "this process must open no files";
  const WatchTurn turn;
  Watched with = g_watched;
  with.Add(range);
  if (of == WatchOf::kFirst) ++with.domains;
  const char* why = WithCgroup(
      [&with](uint64_t pid, const char* group) { return kDamon.Start(pid, with.range, group); });
  if (why == nullptr) g_watched = with;
  return why;
}

void Unwatch(void*) {
  const WatchTurn turn;
  if (--g_watched.domains != 0) return;
  g_watched = {};
  if (!MayOpenFiles()) return;
  WithCgroup([](uint64_t pid, const char* group) { kDamon.Stop(pid, group); });
}

// "some avg10=0.12 ..." in percent, two digits.
uint32_t PressurePer10k(void*) {
  if (!MayOpenFiles()) return 0;
  char text[64] = {};
  const ErrnoKeeper keep;
  const int fd = raw::Open("/proc/pressure/memory", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t n = raw::Read(fd, text, sizeof text - 1);
  raw::Close(fd);
  constexpr size_t kPrefix = sizeof "some avg10=" - 1;
  uint32_t value = 0;
  for (size_t i = kPrefix; n > 0 && i < static_cast<size_t>(n) && text[i] != ' '; ++i) {
    if (text[i] != '.') value = value * 10 + static_cast<uint32_t>(text[i] - '0');
  }
  return value;
}

}  // namespace

constinit const HotMemory kProcessHotMemory = {Take,     Give,     Advise,
                                               Resident, NowNs,    ThreadCpuNs,
                                               Headroom, FreeSwap, ReclaimFromCgroup,
                                               Watch,    Unwatch,  PressurePer10k,
                                               PauseNs,  nullptr};

void ForgetWatchInChild() {
  g_watched = {};
  g_is_busy.store(false, std::memory_order_relaxed);
}

bool HugepagesAreOff() {
  return CurrentState() == RunState::kReady && ReadThpMode() == ThpMode::kNever;
}

// Linux on Arm keeps the upper byte from the kernel's own calls unless a program asks otherwise; we
// pass it no guide.
uint64_t AddressUntagMask() {
  uint64_t mask = ~uint64_t{0};
#ifdef SYS_arch_prctl
  constexpr long kArchGetUntagMask = 0x4001;
  if (raw::Call(SYS_arch_prctl, kArchGetUntagMask, raw::Word(&mask)) != 0) return ~uint64_t{0};
#endif
  return mask;
}

}  // namespace strata
