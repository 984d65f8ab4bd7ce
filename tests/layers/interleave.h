// Runs a few short programs in every order in which threads could run them. The programs are fibers
// of one thread; ModelSync gives the code under test locks and atomics at which a fiber stops, and
// a depth-first search tries each fiber that could go on. A scenario is made anew for every
// schedule.
//
// With kSleepSets, of schedules that differ only in the order of independent operations (on
// different objects, or both reads) one is run to the end and counted: the method of sleep sets
// (Godefroid, Partial-Order Methods, 1996). Every reachable final state is still reached, as long
// as what is not atomic is guarded by locks.
#pragma once

#include <ucontext.h>

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace strata::layers {

enum class Search { kEverything, kSleepSets };

struct Exploration {
  size_t schedules = 0;          // run to the end and counted
  std::set<std::string> states;  // in which they ended
  std::string problem;           // of the first schedule that had one, at which the search ended
  std::vector<int> order;        // and that schedule: who went on at each step
};

class Interleaver {
 public:
  using Program = std::function<void()>;

  // Scenario: programs() gives the fibers' programs, AfterStep() is called whenever all stand
  // still; at the end State() describes how things are and Problem() says what is wrong, or "".
  template <class Scenario>
  static Exploration Explore(Search search) {
    Interleaver self(search);
    Exploration found;
    do {
      auto scenario = std::make_unique<Scenario>();
      self.RunOnce(scenario->programs(), [&] { scenario->AfterStep(); });
      if (!self.redundant_) ++found.schedules;
      if (self.problem_.empty()) self.problem_ = scenario->Problem();
      found.states.insert(scenario->State());
      if (!self.problem_.empty()) {
        found.problem = self.problem_;
        found.order = self.order_;
        Graveyard().push_back(std::move(scenario));  // it is broken: not to be torn down
        break;
      }
    } while (self.Advance());
    return found;
  }

  // Called by the code that runs, before it does what is said here. Outside of fibers: nothing.
  static void At(const void* object, bool write, const bool* until_false = nullptr) {
    if (running_ == nullptr || running_->now_ < 0) return;
    Fiber& f = *running_->fibers_[static_cast<size_t>(running_->now_)];
    f.next = {object, write, until_false};
    swapcontext(&f.context, &running_->scheduler_);
  }
  static int now() { return running_ == nullptr ? -1 : running_->now_; }
  static void Fail(std::string problem) {
    if (running_ != nullptr && running_->problem_.empty()) running_->problem_ = std::move(problem);
  }

 private:
  using Fibers = uint32_t;  // a set of them
  struct Operation {
    const void* object;
    bool write;
    const bool* until_false;  // can't be done while it is true
    bool Independent(const Operation& o) const {
      return object != o.object || (!write && !o.write);
    }
  };
  struct Fiber {
    ucontext_t context;
    Program program;
    Operation next;
    bool done = false;
    std::vector<char> stack = std::vector<char>(256 << 10);
  };
  // A place in the schedule: who could go on, who went, and who needs not any more.
  struct Node {
    Fibers enabled = 0;
    Fibers asleep = 0;
    Fibers tried = 0;
    size_t chosen = 0;
    std::vector<Operation> next;
  };

  explicit Interleaver(Search search) : search_(search) {}

  static std::vector<std::shared_ptr<void>>& Graveyard() {
    static auto& all = *new std::vector<std::shared_ptr<void>>;  // never destroyed either
    return all;
  }
  static void Enter() {
    Interleaver& self = *running_;
    Fiber& f = *self.fibers_[static_cast<size_t>(self.now_)];
    f.program();
    f.done = true;
    swapcontext(&f.context, &self.scheduler_);
  }

  // One whole schedule: the choices of nodes_, then new ones.
  template <class AfterStep>
  void RunOnce(std::vector<Program> programs, AfterStep after_step) {
    running_ = this;
    redundant_ = false;
    problem_.clear();
    order_.clear();
    while (fibers_.size() < programs.size()) fibers_.push_back(std::make_unique<Fiber>());
    for (size_t i = 0; i < programs.size(); ++i) {
      Fiber& f = *fibers_[i];
      f.program = std::move(programs[i]);
      f.done = false;
      getcontext(&f.context);
      f.context.uc_stack = {f.stack.data(), 0, f.stack.size()};
      f.context.uc_link = nullptr;
      makecontext(&f.context, &Interleaver::Enter, 0);
      Resume(i);  // to its first operation: nothing that another could see
    }
    for (size_t depth = 0; problem_.empty(); ++depth) {
      const Fibers enabled = Enabled();
      if (enabled == 0) {
        for (const auto& f : fibers_) {
          if (!f->done) Fail("deadlock");
        }
        break;
      }
      Resume(Choose(depth, enabled));
      after_step();
    }
    running_ = nullptr;
  }

  Fibers Enabled() const {
    Fibers enabled = 0;
    for (size_t i = 0; i < fibers_.size(); ++i) {
      const Fiber& f = *fibers_[i];
      if (!f.done && (f.next.until_false == nullptr || !*f.next.until_false)) enabled |= 1u << i;
    }
    return enabled;
  }

  size_t Choose(size_t depth, Fibers enabled) {
    if (redundant_) return First(enabled);
    if (depth == nodes_.size()) {
      Node fresh;
      fresh.enabled = enabled;
      if (depth > 0 && search_ == Search::kSleepSets) fresh.asleep = AsleepAfter(nodes_.back());
      if ((enabled & ~fresh.asleep) == 0) {
        redundant_ = true;  // others of its kind were run; only to be brought to an end
        return First(enabled);
      }
      fresh.chosen = First(enabled & ~fresh.asleep);
      nodes_.push_back(fresh);
    }
    Node& node = nodes_[depth];
    node.next.clear();  // addresses may differ from the last time
    for (const auto& f : fibers_) node.next.push_back(f->next);
    order_.push_back(static_cast<int>(node.chosen));
    return node.chosen;
  }

  static Fibers AsleepAfter(const Node& n) {
    Fibers asleep = 0;
    for (size_t i = 0; i < n.next.size(); ++i) {
      if (((n.asleep | n.tried) >> i & 1) != 0 && i != n.chosen &&
          n.next[i].Independent(n.next[n.chosen])) {
        asleep |= 1u << i;
      }
    }
    return asleep;
  }

  // To the next schedule; false: that was all.
  bool Advance() {
    while (!nodes_.empty()) {
      Node& n = nodes_.back();
      n.tried |= 1u << n.chosen;
      const Fibers left = n.enabled & ~n.tried & ~n.asleep;
      if (left != 0) {
        n.chosen = First(left);
        return true;
      }
      nodes_.pop_back();
    }
    return false;
  }

  void Resume(size_t i) {
    now_ = static_cast<int>(i);
    swapcontext(&scheduler_, &fibers_[i]->context);
    now_ = -1;
  }
  static size_t First(Fibers set) { return static_cast<size_t>(__builtin_ctz(set)); }

  static inline Interleaver* running_ = nullptr;
  const Search search_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Node> nodes_;
  std::vector<int> order_;
  std::string problem_;
  ucontext_t scheduler_;
  int now_ = -1;
  bool redundant_ = false;
};

// What SystemSync is on real threads (include/strata/layers/detail/sync.h).
struct ModelSync {
  static inline size_t additions = 0;  // to any atomic

  class Lock {
   public:
    void lock() {
      Interleaver::At(this, true, &held_);
      held_ = true;
    }
    bool try_lock() {
      Interleaver::At(this, true);
      return !std::exchange(held_, true);
    }
    void unlock() {
      Interleaver::At(this, true);
      held_ = false;
    }

   private:
    bool held_ = false;
  };

  template <class T>
  class Atomic {
   public:
    constexpr Atomic() = default;
    constexpr explicit Atomic(T value) : value_(value) {}
    T load(std::memory_order = std::memory_order_seq_cst) const {
      Interleaver::At(this, false);
      return value_;
    }
    void store(T value, std::memory_order = std::memory_order_seq_cst) {
      Interleaver::At(this, true);
      value_ = value;
    }
    T fetch_add(T more, std::memory_order = std::memory_order_seq_cst) {
      Interleaver::At(this, true);
      const T before = value_;
      value_ = value_ + more;
      ++additions;
      return before;
    }

   private:
    T value_{};
  };
};

}  // namespace strata::layers
