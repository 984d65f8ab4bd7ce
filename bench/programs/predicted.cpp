// What malloc and free cost while an allocator predicts lifetimes: first a second of objects that
// pass, and some that stay, so that it has something to predict; then pairs, as tight has them.
// With
// --at=other they are allocated where nothing lasts, with --at=wrapper in the function that also
// allocates what does, so that callers have to be told apart.
#include "pairs.h"

namespace {

[[gnu::noinline]] void* Wrapper(size_t size) {
  void* volatile p = bench::CheckedMalloc(size);
  return p;
}
[[gnu::noinline]] void* MakeLasting(size_t size) {
  void* volatile p = Wrapper(size);
  return p;
}
[[gnu::noinline]] void* MakePassing(size_t size) {
  void* volatile p = Wrapper(size);
  return p;
}
[[gnu::noinline]] void* MakeElsewhere(size_t size) {
  void* volatile p = bench::CheckedMalloc(size);
  return p;
}

// Bursts of 8 MiB; one object in a hundred stays to the end.
void Teach(size_t size, double seconds) {
  constexpr size_t kBurst = size_t{8} << 20;
  const size_t n = kBurst / size;
  auto** burst = static_cast<void**>(bench::CheckedMalloc(n * sizeof(void*)));
  for (const uint64_t start = bench::NowNs(); bench::Since(start) < seconds;) {
    for (size_t i = 0; i < n; ++i) {
      burst[i] = MakePassing(size);
      if (i % 100 == 0) bench::Escape(MakeLasting(size));
    }
    for (size_t i = 0; i < n; ++i) free(burst[i]);
    const timespec pause{0, 20'000'000};
    nanosleep(&pause, nullptr);
  }
  free(burst);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const double teach = options.Number("teach", 2.0);
  const char* at = options.Text("at", "other");
  const bench::PairsPlan plan = bench::PairsOptions(options);

  Teach(plan.size, teach);
  const auto drop = [](char* p, size_t) { free(p); };
  const bench::Total total = strcmp(at, "other") == 0 ? bench::RunPairs(plan, MakeElsewhere, drop)
                                                      : bench::RunPairs(plan, MakePassing, drop);

  bench::Report report("predicted");
  report.Add("size=%zu at=%s", plan.size, at);
  report.Rate(total);
  report.Finish();
  return 0;
}
