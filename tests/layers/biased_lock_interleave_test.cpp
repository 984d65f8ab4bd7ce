// Every interleaving of threads that take the lock of reaps (src/regions/biased_lock.h): its owner,
// one that ends the bias, one that becomes the owner after that, and one that forks. Once where a
// store is seen at once, and once where it is not before the thread's next store to the same place,
// a release or a fence, as a CPU may keep it.
#include "regions/biased_lock.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "interleave.h"

namespace strata {
namespace {

using layers::Exploration;
using layers::Interleaver;
using layers::ModelSync;
using layers::Search;

enum class Stores { kSeenAtOnce, kKept };

template <Stores kStores>
struct TestSync {
  static constexpr int kNobody = -2, kAll = -3;

  struct Lock : ModelSync::Lock {
    void lock() {
      ModelSync::Lock::lock();
      holder = Interleaver::now();
    }
    void unlock() {
      holder = kNobody;
      ModelSync::Lock::unlock();
    }
    bool try_lock_for_fork() {
      lock();
      return true;
    }
    // Nobody else changes the answer.
    bool held_by_this_thread() const { return holder == Interleaver::now(); }
    void unlock_after_fork() { unlock(); }
    void unlock_in_forked_child() { unlock(); }

    int holder = kNobody;
  };

  template <class T>
  class Atomic {
   public:
    // Of the two, the one that says who is inside begins with nobody.
    constexpr explicit Atomic(T value) : is_inside_(value == 0), value_(value) {
      if (!is_inside_) return;
      inside = &value_;
      is_occupied = false;
    }
    T load(std::memory_order) const {
      Interleaver::At(this, false);
      return keeper_ == Interleaver::now() ? kept_ : value_;
    }
    void store(T value, std::memory_order order) {
      Interleaver::At(this, true);
      const bool keeps = kStores == Stores::kKept && order == std::memory_order_relaxed &&
                         is_inside_ && Interleaver::now() >= 0;
      keeper_ = keeps ? Interleaver::now() : kNobody;
      if (order != std::memory_order_relaxed && flush) flush(Interleaver::now());
      if (keeps) {
        kept_ = value;
      } else {
        Set(value);
      }
      if (keeps) {
        flush = [this](int thread) {
          if (thread == kAll || thread == keeper_) Flush();
        };
      }
    }

   private:
    void Flush() {
      if (keeper_ != kNobody) Set(kept_);
      keeper_ = kNobody;
    }
    void Set(T value) {
      value_ = value;
      if (is_inside_) is_occupied = value != 0;
    }
    bool is_inside_;
    T value_;
    T kept_{};
    int keeper_ = kNobody;
  };

  static void Fence() {
    Interleaver::At(inside, true);
    if (flush) flush(kAll);
  }
  static void Pause(unsigned) { Interleaver::At(inside, false, &is_occupied); }
  static void BiasEnded() { ++ended; }

  static inline uintptr_t* inside = nullptr;
  static inline bool is_occupied = false;
  static inline int ended = 0;
  static inline std::function<void(int thread)> flush;
};

template <Stores kStores>
struct Threads {
  using Lock = BasicBiasedLock<TestSync<kStores>>;
  static constexpr uintptr_t kFirst = 2, kSecond = 4, kThird = 6;

  Threads() {
    TestSync<kStores>::flush = nullptr;
    TestSync<kStores>::ended = 0;
    lock.Allow();
    const auto how = lock.Enter(kFirst);
    lock.BecomeOwner(kFirst);
    lock.Leave(how);
  }

  void Work(uintptr_t me) {
    if (working) Interleaver::Fail("two threads are inside");
    working = true;
    Interleaver::At(&working, true);
    working = false;
    // A signal handler asks, also when another is about to end the bias.
    if (!lock.HeldBy(me)) Interleaver::Fail("a thread that is inside does not know");
    ++done;
  }
  void Visit(uintptr_t me) {
    const auto how = lock.Enter(me);
    Work(me);
    lock.Leave(how);
    if (lock.HeldBy(me)) Interleaver::Fail("a thread that is out does not know");
  }
  // As the thread that is in the reap's scope.
  void VisitAsNextOwner(uintptr_t me) {
    const auto how = lock.Enter(me);
    Work(me);
    if (how == Lock::How::kLocked) lock.BecomeOwner(me);
    lock.Leave(how);
  }
  void Fork(uintptr_t me) {
    lock.TryLockForFork(me);
    if (lock.SuspendsOwner()) TestSync<kStores>::Fence();
    for (unsigned n = 0; !lock.OwnerIsOut(); ++n) TestSync<kStores>::Pause(n);
    if (working) Interleaver::Fail("a fork in the middle of an operation");
    lock.UnlockAfterFork();
  }

  void AfterStep() {}
  std::string State() { return std::to_string(done); }
  std::string Problem() { return ""; }

  Lock lock;
  bool working = false;
  int done = 0;
};

template <Stores kStores>
struct BiasEnds : Threads<kStores> {
  using T = Threads<kStores>;
  std::vector<Interleaver::Program> programs() {
    return {[this] {
              this->Visit(T::kFirst);
              this->Visit(T::kFirst);
            },
            [this] { this->Visit(T::kSecond); }};
  }
};

template <Stores kStores>
struct BiasIsGivenUp : Threads<kStores> {
  using T = Threads<kStores>;
  std::vector<Interleaver::Program> programs() {
    return {[this] {
              this->Visit(T::kFirst);
              this->lock.GiveUpBias(T::kFirst);
            },
            [this] {
              this->VisitAsNextOwner(T::kSecond);
              this->VisitAsNextOwner(T::kSecond);
            },
            [this] { this->Visit(T::kThird); }};
  }
};

template <Stores kStores>
struct AnotherForks : Threads<kStores> {
  using T = Threads<kStores>;
  std::vector<Interleaver::Program> programs() {
    return {[this] {
              this->Visit(T::kFirst);
              this->Visit(T::kFirst);
            },
            [this] { this->Fork(T::kSecond); }};
  }
  std::string Problem() { return TestSync<kStores>::ended == 0 ? "" : "the fork ended the bias"; }
};

template <class Scenario>
void ExpectExclusive(size_t least, const char* end) {
  const Exploration found = Interleaver::Explore<Scenario>(Search::kSleepSets);
  EXPECT_EQ(found.problem, "");
  EXPECT_GE(found.schedules, least);
  EXPECT_EQ(found.states, std::set<std::string>{end});
}

TEST(BiasedLockInterleave, AnotherThreadEndsTheBias) {
  ExpectExclusive<BiasEnds<Stores::kSeenAtOnce>>(10, "3");
  ExpectExclusive<BiasEnds<Stores::kKept>>(10, "3");
}
TEST(BiasedLockInterleave, TheNextThreadBecomesTheOwner) {
  ExpectExclusive<BiasIsGivenUp<Stores::kSeenAtOnce>>(100, "4");
  ExpectExclusive<BiasIsGivenUp<Stores::kKept>>(100, "4");
}
TEST(BiasedLockInterleave, AForkWaitsForTheOwner) {
  ExpectExclusive<AnotherForks<Stores::kSeenAtOnce>>(10, "2");
  ExpectExclusive<AnotherForks<Stores::kKept>>(10, "2");
}

// Without anybody else: the owner never takes the lock below, and nobody becomes it twice.
TEST(BiasedLock, TheOwnerGoesInByItself) {
  using Lock = Threads<Stores::kSeenAtOnce>::Lock;
  Lock lock;
  EXPECT_EQ(lock.Enter(2), Lock::How::kLocked);
  lock.BecomeOwner(2);  // a fresh one is nobody's
  lock.Leave(Lock::How::kLocked);
  EXPECT_FALSE(lock.TryEnterAsOwner(2));
  lock.Allow();
  EXPECT_EQ(lock.Enter(2), Lock::How::kLocked);
  lock.BecomeOwner(2);
  lock.Leave(Lock::How::kLocked);
  EXPECT_EQ(lock.Enter(2), Lock::How::kAsOwner);
  EXPECT_FALSE(lock.TryEnterAsOwner(2)) << "twice";
  EXPECT_FALSE(lock.IsFree());
  lock.Leave(Lock::How::kAsOwner);
  EXPECT_TRUE(lock.IsFree());
  EXPECT_EQ(lock.Enter(4), Lock::How::kLocked);
  lock.BecomeOwner(4);  // the bias was ended: there is no other
  lock.Leave(Lock::How::kLocked);
  EXPECT_FALSE(lock.TryEnterAsOwner(2));
  EXPECT_FALSE(lock.TryEnterAsOwner(4));
}

// In the child no other thread is inside, wherever it was as the process forked.
TEST(BiasedLock, AForkedChildWaitsForNobody) {
  using Lock = Threads<Stores::kSeenAtOnce>::Lock;
  for (const bool was_owner : {true, false}) {
    Lock lock;
    lock.Allow();
    EXPECT_EQ(lock.Enter(2), Lock::How::kLocked);
    lock.BecomeOwner(2);
    lock.Leave(Lock::How::kLocked);
    if (!was_owner) lock.Forbid();
    EXPECT_TRUE(lock.TryLockForFork(4));
    EXPECT_EQ(lock.SuspendsOwner(), was_owner);
    *TestSync<Stores::kSeenAtOnce>::inside = 2;  // about to find that it is not the owner
    lock.UnlockInForkedChild(4);
    EXPECT_EQ(lock.Enter(4), Lock::How::kLocked);
    lock.Leave(Lock::How::kLocked);
  }
}

// But for the thread that forks, in a handler that interrupted it there.
TEST(BiasedLock, AForkedChildStaysInside) {
  using Lock = Threads<Stores::kSeenAtOnce>::Lock;
  Lock lock;
  lock.Allow();
  EXPECT_EQ(lock.Enter(2), Lock::How::kLocked);
  lock.BecomeOwner(2);
  lock.Leave(Lock::How::kLocked);
  EXPECT_TRUE(lock.TryEnterAsOwner(2));
  lock.Forbid();  // as another does that waits for it since
  lock.UnlockInForkedChild(2);
  EXPECT_TRUE(lock.HeldBy(2));
  lock.LeaveAsOwner();
  EXPECT_FALSE(lock.HeldBy(2));
}

}  // namespace
}  // namespace strata
