// hot_ptr as programs use it: what it owns, what moves, what threads and forks may do.
#include <sys/wait.h>

#include <atomic>
#include <fstream>
#include <memory_resource>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "case.h"
#include "strata/hot_ptr.h"

namespace {

using strata::hot_atomic_ptr;
using strata::hot_domain;
using strata::hot_ptr;
using strata::hot_scope;

// Nothing moves but in collect_now().
hot_domain::options Quiet() {
  hot_domain::options o;
  o.thread = false;
  o.reclaim = STRATA_HOT_RECLAIM_NONE;
  return o;
}

// Its thread has a round each millisecond, and says nothing of swap.
hot_domain::options Eager() {
  hot_domain::options o;
  o.period_ms = 1;
  o.cpu_share = 1;
  o.reclaim = STRATA_HOT_RECLAIM_NONE;
  return o;
}

struct Counted {
  static inline int alive = 0;
  explicit Counted(int n) : number(n) { ++alive; }
  Counted(Counted&& other) noexcept : number(other.number) { ++alive; }
  ~Counted() { --alive; }
  int number;
};

template <class T>
T* Look(hot_domain& domain, const hot_ptr<T>& p) {
  hot_scope op(domain);
  return p.get(op);
}

}  // namespace

CASE(owns_as_a_unique_ptr_does) {
  hot_domain domain{Quiet()};
  hot_ptr<Counted> empty;
  CHECK(!empty && empty == nullptr && nullptr == empty);
  hot_ptr<Counted> p = domain.make<Counted>(7);
  CHECK(p && p != nullptr && Counted::alive == 1);
  {
    hot_scope op(domain);
    Counted& c = *p.get(op);
    CHECK(c.number == 7);
    CHECK(empty.get(op) == nullptr);
  }
  hot_ptr<Counted> q = std::move(p);
  CHECK(!p && q);
  p = std::move(q);
  CHECK(p && !q && Counted::alive == 1);
  q = domain.make<Counted>(8);
  swap(p, q);
  {
    hot_scope op(domain);
    CHECK(p.get(op)->number == 8 && q.get(op)->number == 7);
  }
  p = {};
  CHECK(Counted::alive == 1);
  q.reset();
  CHECK(Counted::alive == 0);
}

CASE(moves_what_is_used_apart_from_the_rest) {
  hot_domain domain{Quiet()};
  std::vector<hot_ptr<Counted>> all;
  for (int i = 0; i < 1000; ++i) all.push_back(domain.make<Counted>(i));
  for (int round = 0; round < 6; ++round) {
    hot_scope op(domain);
    for (int i = 0; i < 1000; i += 10) all[i].get(op);
  }
  for (int round = 0; round < 6; ++round) {
    {
      hot_scope op(domain);
      for (int i = 0; i < 1000; i += 10) all[i].get(op);
    }
    domain.collect_now();
  }
  const strata_hot_stats_t s = domain.stats();
  CHECK(s.heap[1].objects == 100 && s.heap[2].objects == 900);
  CHECK(s.moves >= 1000 && s.promotions >= 100 && s.demotions >= 900);
  hot_scope op(domain);
  for (int i = 0; i < 1000; ++i) CHECK(all[i].get(op)->number == i);
  CHECK(Counted::alive == 1000);
}

// A kernel that refuses the advice is told of once.
CASE(marks_cold_pages) {
  hot_domain::options o = Quiet();
  o.reclaim = STRATA_HOT_RECLAIM_COLD;
  hot_domain domain{o};
  const hot_ptr<Counted> p = domain.make<Counted>(1);
  for (int round = 0; round < 8; ++round) domain.collect_now();
  CHECK(domain.stats().heap[2].objects == 1);
  hot_scope op(domain);
  CHECK(p.get(op)->number == 1);
}

CASE(arrays_know_their_length) {
  hot_domain domain{Quiet()};
  for (const size_t n : {size_t{0}, size_t{1}, size_t{1000}, size_t{300'000}}) {
    hot_ptr<int[]> a = domain.make<int[]>(n);
    {
      hot_scope op(domain);
      CHECK(a.size(op) == n);
      for (size_t i = 0; i < n; ++i) {
        CHECK(a.get(op)[i] == 0);
        a.get(op)[i] = static_cast<int>(i);
      }
    }
    for (int i = 0; i < 6; ++i) domain.collect_now();
    hot_scope op(domain);
    CHECK(a.size(op) == n);
    for (size_t i = 0; i < n; ++i) CHECK(a.get(op)[i] == static_cast<int>(i));
  }
  hot_ptr<std::string[]> words = domain.make<std::string[]>(100);
  {
    hot_scope op(domain);
    for (size_t i = 0; i < 100; ++i) words.get(op)[i] = std::to_string(i);
  }
  for (int i = 0; i < 6; ++i) domain.collect_now();
  hot_scope op(domain);
  for (size_t i = 0; i < 100; ++i) CHECK(words.get(op)[i] == std::to_string(i));
}

namespace {
// A list whose nodes own one another: each move of a node moves the guide in it.
struct Node {
  explicit Node(int n) : number(n) {}
  int number;
  hot_ptr<Node> next;
  char rest[100] = {};
};
}  // namespace

CASE(guides_may_lie_in_objects_that_move) {
  hot_domain domain{Quiet()};
  hot_ptr<Node> first;
  for (int i = 0; i < 500; ++i) {
    hot_ptr<Node> fresh = domain.make<Node>(i);
    {
      hot_scope op(domain);
      fresh.get(op)->next = std::move(first);
    }
    first = std::move(fresh);
  }
  for (int round = 0; round < 12; ++round) {
    hot_scope op(domain);
    int expected = 499;
    for (Node* n = first.get(op); n != nullptr && expected >= round * 40; n = n->next.get(op))
      CHECK(n->number == expected--);
  }
  for (int round = 0; round < 6; ++round) domain.collect_now();
  CHECK(domain.stats().moves >= 500);
  {
    hot_scope op(domain);
    int expected = 499;
    for (Node* n = first.get(op); n != nullptr; n = n->next.get(op)) CHECK(n->number == expected--);
    CHECK(expected == -1);
  }
  // One after the other, or the destructors nest.
  while (first) {
    hot_ptr<Node> rest;
    {
      hot_scope op(domain);
      rest = std::move(first.get(op)->next);
    }
    first = std::move(rest);
  }
}

namespace {
struct Thrower {
  Thrower() { throw std::runtime_error("no"); }
};
struct Allocating {
  using allocator_type = std::pmr::polymorphic_allocator<>;
  Allocating(int n, const allocator_type& a) : text(std::to_string(n), a) {}
  std::pmr::string text;
};
struct alignas(256) Wide {
  char bytes[300];
};
struct SelfPointing {
  SelfPointing() : self(this) {}
  static void hot_move(SelfPointing* to, SelfPointing* from) noexcept {
    CHECK(from->self == from);
    to->self = to;
  }
  SelfPointing* self;
};
}  // namespace

CASE(constructors_throw_take_allocators_and_align) {
  hot_domain domain{Quiet()};
  bool threw = false;
  try {
    domain.make<Thrower>();
  } catch (const std::runtime_error&) {
    threw = true;
  }
  CHECK(threw && domain.stats().heap[0].objects == 0);
  char room[4096];
  std::pmr::monotonic_buffer_resource from(room, sizeof room, std::pmr::null_memory_resource());
  hot_ptr<Allocating> p =
      domain.make_using<Allocating>(std::pmr::polymorphic_allocator<>(&from), 12345678);
  std::pmr::polymorphic_allocator<> allocator(&from);
  p = domain.make<Allocating>(std::allocator_arg, allocator, 12345678);
  hot_ptr<Wide> wide = domain.make<Wide>();
  hot_ptr<SelfPointing> self = domain.make<SelfPointing>();
  for (int i = 0; i < 6; ++i) {
    hot_scope op(domain);
    CHECK(p.get(op)->text == "12345678");
    CHECK(p.get(op)->text.get_allocator().resource() == &from);
    CHECK(reinterpret_cast<uintptr_t>(wide.get(op)) % 256 == 0);
    CHECK(self.get(op)->self == self.get(op));
  }
  for (int i = 0; i < 6; ++i) {
    domain.collect_now();
    hot_scope op(domain);
    CHECK(self.get(op)->self == self.get(op));
    CHECK(reinterpret_cast<uintptr_t>(wide.get(op)) % 256 == 0);
  }
}

CASE(refuses_what_cannot_be_had) {
  hot_domain domain{Quiet()};
  bool threw = false;
  try {
    domain.make<char[]>(SIZE_MAX / 2);
  } catch (const std::bad_alloc&) {
    threw = true;
  }
  CHECK(threw && !domain.try_make<char[]>(SIZE_MAX / 2));
  errno = 0;
  CHECK(strata_hot_allocate(domain.handle(), SIZE_MAX, 16, nullptr) == nullptr && errno == ENOMEM);
  CHECK(strata_hot_allocate(domain.handle(), 16, 3, nullptr) == nullptr);
  strata_hot_options bad{};
  errno = 0;
  CHECK(strata_hot_domain_create(&bad) == nullptr && errno == EINVAL);
  strata_hot_stats_t stats{};
  CHECK(strata_hot_stats(domain.handle(), &stats) == 0);
  CHECK(strata_hot_domain_default() == strata_hot_domain_default());
}

// Readers, writers that replace, and the domain's thread, all at the same guides.
CASE(atomic_pointers_are_read_while_they_change_and_move) {
  hot_domain domain{Eager()};
  struct Pair {
    long a, b;
    char rest[200];
  };
  constexpr int kGuides = 64;
  std::vector<hot_atomic_ptr<Pair>> all(kGuides);
  for (auto& p : all) {
    hot_scope op(domain);
    p.store(op, domain.make<Pair>(Pair{1, -1, {}}));
  }
  std::atomic<bool> stop{false};
  std::atomic<long> seen{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      unsigned random = static_cast<unsigned>(t) + 1;
      while (!stop) {
        random = random * 1664525 + 1013904223;
        hot_atomic_ptr<Pair>& p = all[random >> 16 & (kGuides / 2 - 1)];
        hot_scope op(domain);
        Pair* now = p.load(op);
        CHECK(now->a == -now->b);
        if (t == 0 && (random & 7) == 0) {
          hot_ptr<Pair> next = domain.make<Pair>(Pair{now->a + 1, now->b - 1, {}});
          if (!p.compare_exchange(op, now, next)) CHECK(next);
          CHECK(now->a == -now->b);  // still ours to look at
        }
        ++seen;
      }
    });
  }
  for (int i = 0; i < 300; ++i) usleep(1000);
  for (int i = 0; i < 8; ++i) domain.collect_now();
  stop = true;
  for (std::thread& t : threads) t.join();
  CHECK(seen > 1000);
  CHECK(domain.stats().moves > 0);
  hot_scope op(domain);
  for (auto& p : all) CHECK(p.load(op)->a == -p.load(op)->b);
}

// What the domain's thread has begun to destroy is no object that stays.
CASE(a_domain_ends_while_its_thread_destroys_an_object) {
  static std::atomic<bool> begun, ended;
  struct Slow {
    Slow() = default;
    Slow(Slow&&) noexcept {}
    ~Slow() {
      begun = true;
      usleep(200'000);
      ended = true;
    }
    long unused = 0;
  };
  {
    hot_domain domain{Eager()};
    domain.retire(domain.make<Slow>());
    while (!begun) usleep(100);
  }
  CHECK(ended);
}

// A program may have one for each of its users.
CASE(domains_one_after_the_other_take_no_more_room) {
  const auto address_space_mib = [] {
    long pages = 0;
    CHECK(std::ifstream("/proc/self/statm") >> pages);
    return pages * 4096 >> 20;
  };
  long before = 0;
  for (int i = 0; i < 220; ++i) {
    hot_domain domain{Quiet()};
    const hot_ptr<Counted> p = domain.make<Counted>(i);
    domain.collect_now();
    const strata_hot_stats_t s = domain.stats();
    CHECK(s.rounds == 1 && s.heap[0].objects == 1);
    if (i == 20) before = address_space_mib();
  }
  CHECK(Counted::alive == 0 && address_space_mib() - before < 20);
}

CASE(an_object_that_ends_may_ask_for_a_round) {
  static hot_domain* its;
  static std::atomic<bool> ended;
  struct Asks {
    Asks() = default;
    Asks(Asks&&) noexcept {}
    ~Asks() {
      its->collect_now();
      ended = true;
    }
    long unused = 0;
  };
  hot_domain domain{Quiet()};
  its = &domain;
  domain.retire(domain.make<Asks>());
  for (int i = 0; i < 4; ++i) domain.collect_now();
  CHECK(ended);
}

CASE(a_forked_child_goes_on_and_moves) {
  hot_domain domain{Eager()};
  std::vector<hot_ptr<Counted>> all;
  for (int i = 0; i < 2000; ++i) all.push_back(domain.make<Counted>(i));
  std::atomic<bool> stop{false};
  std::thread user([&] {
    while (!stop) {
      hot_scope op(domain);
      for (int i = 0; i < 100; ++i) all[i].get(op);
    }
  });
  for (int n = 0; n < 10; ++n) {
    const pid_t child = fork();
    if (child == 0) {
      const uint64_t before = domain.stats().moves;
      for (int i = 0; i < 8; ++i) {
        {
          hot_scope op(domain);
          for (int j = 500 + 100 * n; j < 600 + 100 * n; ++j) CHECK(all[j].get(op)->number == j);
        }
        domain.collect_now();
      }
      CHECK(domain.stats().moves > before);
      hot_scope op(domain);
      for (int i = 0; i < 2000; ++i) CHECK(all[i].get(op)->number == i);
      _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
  stop = true;
  user.join();
}

// The thread starts again in a child that only reads.
CASE(a_forked_child_has_its_own_collector) {
  hot_domain domain{Eager()};
  hot_ptr<Counted> p = domain.make<Counted>(1);
  const pid_t child = fork();
  if (child == 0) {
    const uint64_t before = domain.stats().rounds;
    for (int i = 0; i < 5000 && domain.stats().rounds < before + 3; ++i) {
      Look(domain, p);
      usleep(1000);
    }
    CHECK(domain.stats().rounds >= before + 3);
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

CASE(retired_objects_end_after_the_operations_that_run) {
  hot_domain domain{Quiet()};
  hot_ptr<Counted> p = domain.make<Counted>(5);
  {
    hot_scope op(domain);
    Counted* c = p.get(op);
    domain.retire(std::move(p));
    for (int i = 0; i < 5; ++i) domain.collect_now();
    CHECK(Counted::alive == 1 && c->number == 5);
  }
  for (int i = 0; i < 5; ++i) domain.collect_now();
  CHECK(Counted::alive == 0);
}

// Misuse: each is one line that names the type.
CASE(bad_copy_of_bytes) {
  hot_domain domain{Quiet()};
  hot_ptr<Counted> p = domain.make<Counted>(5);
  alignas(hot_ptr<Counted>) unsigned char bytes[sizeof p];
  memcpy(bytes, static_cast<void*>(&p), sizeof p);
  reinterpret_cast<hot_ptr<Counted>*>(bytes)->reset();
}

CASE(bad_use_after_the_operation) {
  hot_domain domain{Quiet()};
  hot_ptr<Counted> p = domain.make<Counted>(5);
  Counted* kept = Look(domain, p);
  kept->number = 6;
}

CASE(bad_use_after_the_end) {
  hot_domain domain{Quiet()};
  hot_ptr<int[]> p = domain.make<int[]>(5);
  hot_scope op(domain);
  int* kept = p.get(op);
  p.reset();
  kept[4] = 6;
}

// Its thread cannot wait for itself: the object that ends is still in it.
CASE(late_call_from_its_own_thread) {
  static hot_domain* its;
  static std::atomic<bool> ended;
  struct EndsIt {
    EndsIt() = default;
    EndsIt(EndsIt&&) noexcept {}
    ~EndsIt() {
      strata_hot_domain_destroy(its->handle());
      ended = true;
    }
    long unused = 0;
  };
  its = new hot_domain{Eager()};
  hot_ptr<Counted> stays = its->make<Counted>(7);
  its->retire(its->make<EndsIt>());
  while (!ended) usleep(100);
  const uint64_t rounds = its->stats().rounds;
  while (its->stats().rounds < rounds + 3) usleep(100);  // it goes on
  _exit(0);
}

CASE(late_objects) {
  hot_ptr<Counted> p;
  {
    hot_domain domain{Quiet()};
    p = domain.make<Counted>(5);
  }
  _exit(0);
}
