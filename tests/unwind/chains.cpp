// The walk against backtrace in C++: templates, lambdas, virtual calls, callbacks of algorithms,
// destructors that run while an exception is on its way, catch blocks, static initialisation.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "compare.h"

namespace {

template <int N>
struct Chain {
  __attribute__((noinline)) static int Down(const std::function<void()>& leaf) {
    std::string text(static_cast<size_t>(N) * 7, 'x');
    const int r = Chain<N - 1>::Down(leaf);
    return r + static_cast<int>(text.size());
  }
};
template <>
struct Chain<0> {
  static int Down(const std::function<void()>& leaf) {
    leaf();
    return 0;
  }
};

struct Base {
  virtual ~Base() = default;
  virtual void Visit(int depth) = 0;
};
struct Even : Base {
  void Visit(int depth) override;
};
struct Odd : Base {
  void Visit(int depth) override;
};
void Dispatch(int depth) {
  std::unique_ptr<Base> b;
  if (depth % 2 == 0) {
    b = std::make_unique<Even>();
  } else {
    b = std::make_unique<Odd>();
  }
  b->Visit(depth);
}
void Even::Visit(int depth) {
  if (depth == 0) return Compare(4);
  Dispatch(depth - 1);
}
void Odd::Visit(int depth) {
  std::map<int, std::string> names{{1, "one"}, {depth, "many"}};
  Dispatch(depth - 1);
}

struct LooksWhenDestroyed {
  ~LooksWhenDestroyed() { Compare(4); }
};
__attribute__((noinline)) void Throw(int depth) {
  LooksWhenDestroyed here;
  if (depth == 0) throw std::runtime_error("deep");
  Throw(depth - 1);
}

struct AtStart {
  AtStart() {
    PrepareCompare();
    Compare(3);
  }
} at_start;

void Everything() {
  Chain<12>::Down([] { Compare(14); });
  Dispatch(9);
  std::vector<int> numbers(50);
  for (int i = 0; i < 50; ++i) numbers[static_cast<size_t>(i)] = i * 37 % 50;
  std::sort(numbers.begin(), numbers.end(), [](int a, int b) {
    Compare(3);
    return a < b;
  });
  std::for_each(numbers.begin(), numbers.end(), [](int& n) {
    if (n % 10 == 0) Chain<3>::Down([] { Compare(5); });
  });
  try {
    Throw(5);
  } catch (const std::runtime_error&) {
    Compare(2);
    try {
      Throw(3);
    } catch (...) {
      Compare(2);
    }
  }
}

}  // namespace

int main() {
  Everything();
  std::thread(Everything).join();
  return compared > 100 && probe_stale() == (getenv("PROBE_UNPREPARED") != nullptr) ? 0 : 3;
}
