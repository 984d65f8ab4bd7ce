// build flags: -DNDEBUG -lstrata
// What a guide costs in a hot loop: the same sum over the same objects, reached by plain pointers
// and by guides (strata/hot_ptr.h), in turn; the objects fit in the cache. Prints nanoseconds a
// use.
#include <strata/hot_ptr.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

struct Object {
  uint64_t number = 1;
  uint64_t rest[7] = {};
};

constexpr size_t kObjects = 1024;
constexpr int kTurns = 21;

double g_seconds = 2;

template <class F>
double NanosecondsEach(F f) {
  using Clock = std::chrono::steady_clock;
  const double limit = g_seconds * 1e9 / (2 * kTurns);
  uint64_t uses = 0;
  const auto start = Clock::now();
  double passed = 0;
  do {
    uint64_t sum = 0;
    for (int i = 0; i < 64; ++i) sum += f();
    asm volatile("" ::"r"(sum));
    uses += 64 * kObjects;
    passed = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
  } while (passed < limit);
  return passed / static_cast<double>(uses);
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (strncmp(argv[i], "--seconds=", 10) == 0) g_seconds = atof(argv[i] + 10);
  }
  strata::hot_domain::options options;
  options.thread = false;
  strata::hot_domain domain{options};
  std::vector<strata::hot_ptr<Object>> guides;
  for (size_t i = 0; i < kObjects; ++i) guides.push_back(domain.make<Object>());
  const strata::hot_scope holds(domain);
  std::vector<Object*> plain;
  strata::hot_scope op(domain);
  for (auto& g : guides) plain.push_back(g.get(op));
  double best_plain = 1e9, best_guided = 1e9;
  for (int turn = 0; turn < kTurns; ++turn) {
    const double p = NanosecondsEach([&] {
      uint64_t sum = 0;
      for (Object* o : plain) {
        sum += o->number;
        asm volatile("" : "+r"(sum));
      }
      return sum;
    });
    const double g = NanosecondsEach([&] {
      uint64_t sum = 0;
      for (auto& guide : guides) {
        sum += guide.get(op)->number;
        asm volatile("" : "+r"(sum));
      }
      return sum;
    });
    best_plain = p < best_plain ? p : best_plain;
    best_guided = g < best_guided ? g : best_guided;
  }
  printf("{\"plain_ns\": %.3f, \"guided_ns\": %.3f}\n", best_plain, best_guided);
  return 0;
}
