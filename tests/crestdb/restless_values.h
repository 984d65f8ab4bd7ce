// Both kinds of values for tests of structures, and a thread that moves the guided ones all the
// time.
#pragma once

#include <atomic>
#include <concepts>
#include <thread>

#include "values/guided_values.h"
#include "values/plain_values.h"
#include "values/reclaim.h"

namespace crest {

inline strata::hot_domain::options MovesOnlyWhenTold() {
  strata::hot_domain::options o;
  o.thread = false;
  o.reclaim = STRATA_HOT_RECLAIM_NONE;
  return o;
}

template <class Values>
struct TestValues;

template <>
struct TestValues<PlainValues> {
  PlainValues values;
  struct Mover {
    explicit Mover(TestValues&) {}
  };
};

template <>
struct TestValues<GuidedValues> {
  GuidedValues values{MovesOnlyWhenTold()};

  // While it is there, what is used becomes hot and the rest cold, round after round. It ends when
  // something has moved.
  class Mover {
   public:
    explicit Mover(TestValues& test) : domain_(test.values.domain()) {}
    ~Mover() {
      ends_.store(true);
      thread_.join();
    }

   private:
    strata::hot_domain& domain_;
    // So that something can move although the test has removed all it had.
    strata::hot_ptr<char[]> idle_ = domain_.make<char[]>(64);
    std::atomic<bool> ends_{false};
    std::thread thread_{[this] {
      do {
        domain_.collect_now();
      } while (!ends_.load() || domain_.stats().moves == 0);
    }};
  };
};

// A structure with its values; what waits to be freed goes before the domain.
template <class I, class Values>
struct TestIndex : TestValues<Values> {
  using Index = I;
  TestIndex() : index(MakeIndex(this->values)) {}
  ~TestIndex() {
    delete index;
    Reclaimer::Get().DrainAll();
  }
  Index* const index;

 private:
  static Index* MakeIndex(Values& values) {
    if constexpr (std::constructible_from<Index, Values&, size_t>) {
      return new Index(values, 64);  // few: chains get long
    } else {
      return new Index(values);
    }
  }
};

}  // namespace crest
