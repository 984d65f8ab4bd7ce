// What malloc and free cost while an allocator predicts lifetimes: first a second of objects that
// pass, and some that stay, so that it has something to predict; then pairs, as tight has them.
// With
// --at=other they are allocated where nothing lasts, with --at=wrapper in the function that also
// allocates what does, so that callers have to be told apart.
#include "common.h"

namespace {

constexpr uint64_t kChunk = 4096;  // pairs between two looks at the clock

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

template <class Make>
uint64_t Pairs(Make make, size_t size) {
  for (uint64_t i = 0; i < kChunk; ++i) {
    auto* p = static_cast<char*>(make(size));
    *p = 1;
    bench::Escape(p);
    free(p);
  }
  return kChunk;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const size_t size = options.Count("size", 64);
  const auto threads = static_cast<unsigned>(options.Count("threads", 1));
  const double seconds = options.Scaled("seconds", 1.0);
  const double teach = options.Number("teach", 2.0);
  const char* at = options.Text("at", "other");
  options.RejectUnknown();
  if (size == 0) bench::Die("--size must be above zero");
  const bool other = strcmp(at, "other") == 0;

  Teach(size, teach);
  const bench::Total total = bench::RunThreads(threads, [&](unsigned) {
    return bench::RunFor(
        seconds, [&] { return other ? Pairs(MakeElsewhere, size) : Pairs(MakePassing, size); });
  });

  bench::Report report("predicted");
  report.Add("size=%zu at=%s", size, at);
  report.Rate(total);
  report.Finish();
  return 0;
}
