// The end of a domain and of its objects, as programs see it.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "case.h"
#include "strata/hot_ptr.h"
#include "strata/strata.h"

namespace {

using strata::hot_domain;
using strata::hot_scope;

// Nothing happens but in strata_hot_collect.
strata_hot_domain* Begin() {
  strata_hot_options o{};
  o.size = sizeof o;
  o.without_thread = 1;
  o.reclaim = STRATA_HOT_RECLAIM_NONE;
  strata_hot_domain* const d = strata_hot_domain_create(&o);
  CHECK(d != nullptr);
  return d;
}

int Threads() {
  int n = 0;
  DIR* const tasks = opendir("/proc/self/task");
  while (const dirent* task = readdir(tasks)) n += task->d_name[0] != '.';
  closedir(tasks);
  return n;
}

}  // namespace

// In the child the round is still its thread's, and no other thread begins.
CASE(an_object_that_ends_may_fork) {
  static hot_domain* its;
  static std::atomic<bool> ended;
  struct Forks {
    Forks() = default;
    Forks(Forks&&) noexcept {}
    ~Forks() {
      const pid_t child = fork();
      if (child == 0) {
        const uint64_t before = its->stats().rounds;
        its->collect_now();
        {
          const hot_scope op(*its);
        }
        CHECK(its->stats().rounds == before);
        CHECK(Threads() == 1);
        _exit(0);
      }
      int status = 1;
      CHECK(waitpid(child, &status, 0) == child && status == 0);
      ended = true;
    }
    long unused = 0;
  };
  for (const bool threaded : {false, true}) {
    ended = false;
    hot_domain::options o;
    o.thread = threaded;
    o.period_ms = 1;
    o.cpu_share = 1;
    o.reclaim = STRATA_HOT_RECLAIM_NONE;
    hot_domain domain{o};
    its = &domain;
    domain.retire(domain.make<Forks>());
    for (int i = 0; i < 4 && !threaded; ++i) domain.collect_now();
    while (threaded && !ended) usleep(100);
    CHECK(ended);
  }
}

// Misuse: each is one line, and nobody else's domain ends.
CASE(late_second_end) {
  strata_hot_domain* const d = Begin();
  strata_hot_domain_destroy(d);
  strata_hot_domain_destroy(d);
  CHECK(Begin() != Begin());
  _exit(0);
}

CASE(late_end_of_anothers) {
  strata_hot_domain* const d = Begin();
  strata_hot_domain_destroy(d);
  strata_hot_domain* const others = Begin();
  strata_hot_domain_destroy(d);
  void* const p = strata_hot_allocate(others, 64, 16, nullptr);
  CHECK(p != nullptr);
  strata_hot_domain* const third = Begin();
  strata_hot_stats_t s{};
  s.size = sizeof s;
  CHECK(strata_hot_stats(third, &s) != 0 && s.heap[0].objects == 0);
  CHECK(strata_hot_stats(others, &s) != 0 && s.heap[0].objects == 1);
  strata_hot_free(p);
  strata_hot_domain_destroy(others);
  strata_hot_domain_destroy(third);
  _exit(0);
}

// The handler may have interrupted whoever has a lock that the work at the exit takes. A deadlock
// shows as the alarm's signal.
CASE(late_exits_of_handlers) {
  enum { kChildren = 30 };
  static const auto make_domains = [] { strata_hot_domain_destroy(Begin()); };
  static const auto write_profiles = [] {
    static const int to = open("/dev/null", O_WRONLY);
    CHECK(strata_profile("heap", to) == 0);
  };
  for (int i = 0; i < kChildren; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      CHECK(signal(SIGVTALRM, [](int) { exit(3); }) != SIG_ERR);
      alarm(20);
      const itimerval in{{0, 0}, {0, 200 + i * 97 % 4000}};
      CHECK(setitimer(ITIMER_VIRTUAL, &in, nullptr) == 0);
      for (;;) i % 2 == 0 ? make_domains() : write_profiles();
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_AT(WIFEXITED(status) && WEXITSTATUS(status) == 3, i);
  }
}
