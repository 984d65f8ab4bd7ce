// The stress of the restartable sequences: threads that take and free objects through a real
// CpuCache on real slabs while they are moved between CPUs, hit by signals whose handlers do the
// same, and drained from under. Every object has an owner word; whoever takes an object that
// somebody owns, or at the end misses one, has found a broken sequence. Shared by the stress test
// and by its control, which compiles it without the descriptor.
#pragma once

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "../hugepage/test_arena.h"
#include "../os/looked.h"
#include "cache/cpu_cache.h"
#include "os/rseq.h"

namespace strata::test {

// What the process has, but indexed as asked; kNone where that is not to be had.
inline RseqInfo RseqIndexedBy(RseqIndex index) {
  RseqInfo info = FindRseq();
  if (info.index == RseqIndex::kNone || (index == RseqIndex::kMmCid && info.index != index))
    return {};
  info.index = index;
  info.index_offset =
      info.area_offset +
      static_cast<ptrdiff_t>(index == RseqIndex::kMmCid ? kRseqMmCidOffset : kRseqCpuIdOffset);
  return info;
}

enum class Disturbance { kNone, kAll };

struct StressResult {
  size_t violations = 0;  // objects with two owners, lost or doubled
  size_t moves = 0;       // objects taken and freed by the threads
  size_t signal_moves = 0;
  size_t drains = 0;   // that found something
  size_t resizes = 0;  // of one vCPU's limit
  size_t hits = 0;     // by the slabs' own count
};

class RseqStress {
 public:
  explicit RseqStress(const RseqInfo& info, uint32_t looks = MarkLooks::kEach)
      : info_(info), owner_(kClasses * kObjects) {
    const size_t cpus = PossibleCpus();
    slab_bytes_ = cpus << kSlabShift;
    mapping_ = static_cast<char*>(mmap(nullptr, slab_bytes_, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    STRATA_CHECK(mapping_ != MAP_FAILED);
    // A push marks what it pushes.
    void* const objects = reinterpret_cast<void*>(kFirstObject);
    STRATA_CHECK(mmap(objects, kClasses * kObjects * kSpacing, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1,
                      0) == objects);
    char* slabs = mapping_;
    RseqOps ops;
    ops.where = {info.area_offset, info.index_offset, MarkOf(0x5eed), looks};
    ops.slabs = slabs;
    ops.info = info;
    ops_ = ops;
    for (size_t k = 0; k < kClasses; ++k) {
      classes_[k] = ClassOfSize(kSizes[k]);
      for (size_t i = 0; i < kObjects; ++i) transfer_.pools[k].push_back(ObjectAt(k, i));
    }
    transfer_.classes = classes_;
    STRATA_CHECK(cache_.Init(ops, &transfer_, &arena_.arena(), slabs, cpus, kLimit));
  }
  ~RseqStress() {
    munmap(mapping_, slab_bytes_);
    munmap(reinterpret_cast<void*>(kFirstObject), kClasses * kObjects * kSpacing);
  }
  RseqStress(const RseqStress&) = delete;
  RseqStress& operator=(const RseqStress&) = delete;

  // Ends after `time`, or at the first violation. Undisturbed: one thread, left alone.
  StressResult Run(std::chrono::milliseconds time, Disturbance disturbance = Disturbance::kAll) {
    disturbed_ = disturbance == Disturbance::kAll;
    current = this;
    struct sigaction action = {};
    action.sa_handler = [](int) { OnSignal(); };
    action.sa_flags = SA_RESTART;
    struct sigaction old_alarm, old_user;
    sigaction(SIGALRM, &action, &old_alarm);
    sigaction(SIGUSR1, &action, &old_user);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < (disturbed_ ? kThreads : 1); ++t)
      threads.emplace_back([this, t] { Work(t); });
    std::thread drainer([this] { KeepDraining(); });
    BlockSignals();  // the alarm is for the workers
    const itimerval thousand_a_second = {{0, 1000}, {0, 1000}};
    if (disturbed_) setitimer(ITIMER_REAL, &thousand_a_second, nullptr);
    KeepSignalling(std::chrono::steady_clock::now() + time);
    const itimerval none = {};
    setitimer(ITIMER_REAL, &none, nullptr);
    stop_ = true;
    for (std::thread& t : threads) t.join();
    drainer.join();
    timespec now = {};
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    while (sigtimedwait(&alarm, nullptr, &now) == SIGALRM || errno == EINTR) {
    }
    sigaction(SIGALRM, &old_alarm, nullptr);
    sigaction(SIGUSR1, &old_user, nullptr);
    UnblockSignals();
    Reckon();
    current = nullptr;
    return result_;
  }

 private:
  static constexpr size_t kThreads = 4;
  static constexpr size_t kClasses = 3;
  static constexpr size_t kObjects = 3000;  // of each class
  // Little enough that classes take room from each other all the time.
  static constexpr size_t kLimit = 48 << 10;
  static constexpr size_t kSizes[kClasses] = {8, 64, 1024};
  static constexpr size_t kStash = 64;
  static constexpr uintptr_t kFirstObject = uintptr_t{1} << 40;
  static constexpr uintptr_t kSpacing = 1024;  // aligned as objects of each class are

  // A tier below of fixed objects. Its lock is not for signal handlers: they use the fast half.
  struct Transfer {
    size_t Take(SizeClass c, void** out, size_t n) {
      const std::lock_guard hold(mutex);
      std::vector<void*>& pool = pools[Of(c)];
      n = std::min(n, pool.size());
      std::copy_n(pool.end() - static_cast<long>(n), n, out);
      pool.resize(pool.size() - n);
      return n;
    }
    void Give(SizeClass c, void* const* objects, size_t n) {
      const std::lock_guard hold(mutex);
      std::vector<void*>& pool = pools[Of(c)];
      pool.insert(pool.end(), objects, objects + n);
    }
    size_t Of(SizeClass c) const {
      return static_cast<size_t>(std::find(classes, classes + kClasses, c) - classes);
    }
    std::mutex mutex;
    const SizeClass* classes = nullptr;
    std::vector<void*> pools[kClasses];
  };

  // What a handler could not push back; the thread itself empties it with signals blocked.
  struct PerThread {
    void* stash[kStash];
    size_t stash_class[kStash];
    volatile sig_atomic_t stashed = 0;
    uint32_t owner = 0;
    uint64_t random = 0;
    size_t moves = 0;
    size_t signal_moves = 0;
  };

  static void* ObjectAt(size_t k, size_t i) {
    return reinterpret_cast<void*>(kFirstObject + (k * kObjects + i) * kSpacing);
  }
  // Beyond the table for what is no object at all, which a broken sequence may hand out.
  static size_t NumberOf(const void* object) {
    return (reinterpret_cast<uintptr_t>(object) - kFirstObject) / kSpacing;
  }

  void Violation() {
    violations_.fetch_add(1);
    stop_ = true;
  }
  void Own(size_t k, void* object, uint32_t who) {
    const size_t n = NumberOf(object);
    if (n / kObjects != k || owner_[n].exchange(who) != 0) Violation();
  }
  void Disown(void* object, uint32_t who) {
    const size_t n = NumberOf(object);
    if (n >= owner_.size() || owner_[n].exchange(0) != who) Violation();
  }

  static uint32_t Random(uint64_t& state) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state >> 33);
  }

  // In a handler: a pop and a push in the middle of whatever the thread was at.
  static void OnSignal() {
    const int saved = errno;
    if (current != nullptr && self != nullptr && !current->stop_) current->HandleSignal(*self);
    errno = saved;
  }
  void HandleSignal(PerThread& me) {
    // An owner of its own: the handler may hold what the thread below is about to get.
    const uint32_t who = me.owner + 100;
    for (size_t k = 0; k < kClasses; ++k) {
      if (me.stashed == kStash) return;
      void* object = ops_.Pop(classes_[k]);
      if (object == nullptr) continue;
      Own(k, object, who);
      Disown(object, who);
      ++me.signal_moves;
      if (ops_.Push(classes_[k], object) == PushResult::kPushed) continue;
      const auto at = static_cast<size_t>(me.stashed);
      me.stash[at] = object;
      me.stash_class[at] = k;
      me.stashed = static_cast<sig_atomic_t>(at + 1);
    }
  }

  void EmptyStash(PerThread& me) {
    BlockSignals();
    for (auto i = static_cast<size_t>(me.stashed); i-- > 0;)
      transfer_.Give(classes_[me.stash_class[i]], &me.stash[i], 1);
    me.stashed = 0;
    UnblockSignals();
  }

  void Work(size_t t) {
    PerThread me;
    me.owner = static_cast<uint32_t>(t + 1);
    me.random = t * 7919 + 17;
    thread_ids_[t] = static_cast<pid_t>(syscall(SYS_gettid));
    self = &me;
    std::vector<void*> held[kClasses];
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    for (size_t step = 0; !stop_; ++step) {
      const uint32_t r = Random(me.random);
      const size_t k = r % kClasses;
      if (r / 16 % 512 == 0 && disturbed_)
        MoveTo(static_cast<size_t>(Random(me.random)) % static_cast<size_t>(cpus));
      if (me.stashed > 0 && step % 64 == 0) EmptyStash(me);
      if (r / 8192 % 64 == 0) {
        MoveBatch(me, k, held[k]);
      } else if (held[k].size() < 300 && r / 8 % 2 == 0) {
        TakeOne(me, k, held[k]);
      } else if (!held[k].empty()) {
        FreeOne(me, k, held[k]);
      }
      ++me.moves;
    }
    for (size_t k = 0; k < kClasses; ++k) {
      while (!held[k].empty()) FreeOne(me, k, held[k]);
    }
    self = nullptr;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    EmptyStash(me);
    const std::lock_guard hold(transfer_.mutex);
    result_.moves += me.moves;
    result_.signal_moves += me.signal_moves;
  }

  void TakeOne(PerThread& me, size_t k, std::vector<void*>& held) {
    void* object = ops_.Pop(classes_[k]);
    if (object == nullptr) object = Slowly([&] { return cache_.PopSlow(classes_[k]); });
    if (object == nullptr) return;
    Own(k, object, me.owner);
    held.push_back(object);
  }

  void FreeOne(PerThread& me, size_t k, std::vector<void*>& held) {
    const size_t at = Random(me.random) % held.size();
    void* object = held[at];
    held[at] = held.back();
    held.pop_back();
    Disown(object, me.owner);
    const PushResult pushed = ops_.Push(classes_[k], object);
    if (pushed == PushResult::kSuspect) Violation();
    if (pushed != PushResult::kPushed) {
      Slowly([&] {
        cache_.PushSlow(classes_[k], object);
        return nullptr;
      });
    }
  }

  // Off in one sequence, looked at, on in another: the longest ones there are.
  void MoveBatch(PerThread& me, size_t k, std::vector<void*>& held) {
    void* batch[kMaxBatch];
    const size_t n = ops_.PopBatch(classes_[k], batch, kMaxBatch);
    for (size_t i = 0; i < n; ++i) Own(k, batch[i], me.owner);
    for (size_t i = 0; i < n; ++i) Disown(batch[i], me.owner);
    if (n == 0) return;
    const size_t kept = ops_.PushBatch(classes_[k], batch, n);
    for (size_t i = kept; i < n; ++i) {
      Own(k, batch[i], me.owner);
      held.push_back(batch[i]);
    }
  }

  // The slow half is not for handlers, and they may not interrupt its locks.
  template <class F>
  void* Slowly(F f) {
    BlockSignals();
    void* p = f();
    UnblockSignals();
    return p;
  }

  static void MoveTo(size_t cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof(set), &set);
  }

  void KeepDraining() {
    BlockSignals();
    while (!stop_ && disturbed_) {
      // Mostly shrinks, which stop only some classes and leave some objects where they are.
      for (int i = 0; i < 8 && !stop_; ++i) {
        cache_.SetShare(i % 2 == 0 ? kLimit / 4 : kLimit);
        cache_.MoveLimits(LimitRound::kNeed);
        for (size_t v = 0; v < cache_.max_vcpus(); ++v)
          violations_ += cache_.room_bytes(v) > kLimit;
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
      for (size_t v = 0; v < cache_.max_vcpus(); ++v) result_.drains += cache_.Drain(v) != 0;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    for (size_t v = 0; v < cache_.max_vcpus(); ++v) result_.resizes += cache_.StatsOf(v).resizes;
  }

  void KeepSignalling(std::chrono::steady_clock::time_point end) {
    const pid_t process = getpid();
    uint64_t random = 99;
    while (!stop_ && std::chrono::steady_clock::now() < end) {
      const pid_t thread = thread_ids_[Random(random) % kThreads];
      if (thread != 0 && disturbed_) syscall(SYS_tgkill, process, thread, SIGUSR1);
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

  static void ChangeSignals(int how) {
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGALRM);
    sigaddset(&both, SIGUSR1);
    pthread_sigmask(how, &both, nullptr);
  }
  static void BlockSignals() { ChangeSignals(SIG_BLOCK); }
  static void UnblockSignals() { ChangeSignals(SIG_UNBLOCK); }

  // With all threads gone: each object lies below exactly once.
  void Reckon() {
    for (size_t k = 0; k < kClasses; ++k) {
      result_.hits += cache_.Stats(classes_[k]).pops;
    }
    for (size_t v = 0; v < cache_.max_vcpus(); ++v) cache_.Drain(v);
    for (size_t k = 0; k < kClasses; ++k) {
      std::vector<void*>& pool = transfer_.pools[k];
      std::sort(pool.begin(), pool.end());
      if (pool.size() != kObjects) ++violations_;
      for (size_t i = 0; i < kObjects && i < pool.size(); ++i)
        violations_ += pool[i] != ObjectAt(k, i);
    }
    result_.violations = violations_;
  }

  static inline RseqStress* volatile current = nullptr;
  static inline thread_local PerThread* volatile self = nullptr;

  const RseqInfo info_;
  TestArena arena_;
  std::vector<std::atomic<uint32_t>> owner_;  // 0: nobody
  char* mapping_ = nullptr;
  size_t slab_bytes_ = 0;
  RseqOps ops_;
  SizeClass classes_[kClasses] = {};
  Transfer transfer_;
  CpuCache<RseqOps, Transfer> cache_;
  std::atomic<pid_t> thread_ids_[kThreads] = {};
  bool disturbed_ = true;
  std::atomic<bool> stop_{false};
  std::atomic<size_t> violations_{0};
  StressResult result_;
};

}  // namespace strata::test
