// The threads of a replay. See threads.h.
#include "threads.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>

namespace strata::replay {
namespace {

constexpr size_t kDone = SIZE_MAX;
constexpr size_t kLookEvery = 32;  // steps between two looks at the others

struct alignas(128) Worker {
  std::atomic<size_t> next{kDone};  // the step it makes next; for those not started their first
  std::atomic<int64_t> live{0};
  Progress progress;
  size_t begin = 0, end = 0;  // in the list of steps by thread
  bool started = false;
  pthread_t thread{};
  struct Team* team = nullptr;
};

struct Team {
  ThreadedReplay* replay = nullptr;
  Array<uint32_t> steps;  // grouped by thread, in order
  Array<Worker> workers;  // by thread number
  size_t count = 0;
  pthread_mutex_t sampling = PTHREAD_MUTEX_INITIALIZER;

  size_t Slowest() {
    size_t least = kDone;
    for (size_t i = 0; i < count; ++i)
      least = std::min(least, workers[i].next.load(std::memory_order_acquire));
    return least;
  }
  int64_t Live() {
    int64_t sum = 0;
    for (size_t i = 0; i < count; ++i) sum += workers[i].live.load(std::memory_order_relaxed);
    return sum;
  }
};

void WaitForBlock(Team& team, const Step& step) {
  if (step.from == kNoSlot) return;
  Slot& slot = (*team.replay->slots)[step.from];
  while (slot.block.load(std::memory_order_acquire) == nullptr) sched_yield();
}

void* Work(void* argument) {
  Worker& self = *static_cast<Worker*>(argument);
  Team& team = *self.team;
  ThreadedReplay& replay = *team.replay;
  Caller caller(*replay.slots, replay.touch);
  for (size_t i = self.begin; i < self.end; ++i) {
    const size_t at = team.steps[i];
    const Step& step = replay.plan->steps[at];
    // Published before any wait: the others' windows depend on it.
    self.next.store(at, std::memory_order_release);
    if ((i - self.begin) % kLookEvery == 0)
      while (at > team.Slowest() + replay.window) sched_yield();
    WaitForBlock(team, step);
    caller.Do(step, self.progress);
    if (replay.stride == 0) continue;
    self.live.store(self.progress.live, std::memory_order_relaxed);
    if ((at + 1) % replay.stride == 0) {
      pthread_mutex_lock(&team.sampling);
      replay.sample(replay.context, at, team.Live());
      pthread_mutex_unlock(&team.sampling);
    }
  }
  self.next.store(kDone, std::memory_order_release);
  return nullptr;
}

// By counting: how many steps each thread has, where each begins, and then each step to its place.
void Divide(Plan& plan, Team& team) {
  for (size_t i = 0; i < plan.count; ++i)
    if (plan.steps[i].operation != Step::kNothing) ++team.workers[plan.threads[i]].end;
  size_t begin = 0;
  for (size_t t = 0; t < team.count; ++t) {
    Worker& worker = team.workers[t];
    const size_t n = worker.end;
    worker.begin = worker.end = begin;
    worker.team = &team;
    worker.next.store(kDone, std::memory_order_relaxed);
    begin += n;
  }
  for (size_t i = 0; i < plan.count; ++i) {
    if (plan.steps[i].operation == Step::kNothing) continue;
    Worker& worker = team.workers[plan.threads[i]];
    if (worker.begin == worker.end) worker.next.store(i, std::memory_order_relaxed);
    team.steps[worker.end++] = static_cast<uint32_t>(i);
  }
}

}  // namespace

Progress ThreadedReplay::Run() {
  static Team team;
  team.replay = this;
  team.count = size_t{plan->most_thread} + 1;
  team.steps.Make(plan->count);
  team.steps.Fill(0);
  team.workers.Make(team.count);
  Divide(*plan, team);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 << 10);
  Progress sum;
  // A thread begins when the slowest of all comes near its first call, as it did in the program.
  for (size_t left = team.count; left != 0;) {
    const size_t slowest = team.Slowest();
    left = 0;
    for (size_t t = 0; t < team.count; ++t) {
      Worker& worker = team.workers[t];
      const bool due = worker.next.load(std::memory_order_acquire) <=
                       (slowest > kDone - window ? kDone - 1 : slowest + window);
      if (!worker.started && worker.begin != worker.end && due) {
        if (pthread_create(&worker.thread, &attributes, Work, &worker) != 0)
          Fail("", "cannot start as many threads as the trace has");
        worker.started = true;
      }
      left += worker.next.load(std::memory_order_acquire) != kDone;
    }
    sched_yield();
  }
  for (size_t t = 0; t < team.count; ++t) {
    if (team.workers[t].started) pthread_join(team.workers[t].thread, nullptr);
    sum.live += team.workers[t].progress.live;
    sum.failures += team.workers[t].progress.failures;
  }
  return sum;
}

}  // namespace strata::replay
