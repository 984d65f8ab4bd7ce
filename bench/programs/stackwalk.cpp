// What a walk of the stack costs, in ns, at --depth frames (20) of code without frame pointers: by
// Strata's prepared tables, warm and with its cache of addresses flushed from the CPU's caches; by
// glibc's backtrace; by libunwind's unw_backtrace, which keeps a cache of its own. libunwind and
// Strata's walk are loaded with dlopen(RTLD_LOCAL): linked in, libunwind would replace backtrace
// and _Unwind_Backtrace. --walk names the walk's library, which scripts/build-stack-probe.sh
// builds.
// build flags: -fomit-frame-pointer -fno-optimize-sibling-calls
#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <vector>

#include "common.h"

namespace {

using WalkFunction = size_t (*)(uintptr_t* out, size_t max);
using IntWalkFunction = int (*)(void** out, int max);

WalkFunction g_walk = nullptr;
IntWalkFunction g_unw_backtrace = nullptr;
constexpr size_t kMax = 20;

struct Result {
  double best_ns = 1e18;
  size_t frames = 0;
};

using Once = size_t (*)();

size_t Strata() {
  uintptr_t frames[kMax];
  const size_t n = g_walk(frames, kMax);
  bench::Escape(frames);
  return n;
}
size_t Glibc() {
  void* frames[kMax];
  const int n = backtrace(frames, kMax);
  bench::Escape(frames);
  return static_cast<size_t>(n);
}
size_t Libunwind() {
  void* frames[kMax];
  const int n = g_unw_backtrace(frames, kMax);
  bench::Escape(frames);
  return static_cast<size_t>(n);
}

// Reads more than the last cache holds, so that nothing of the walk's tables is left in it.
void FlushCaches() {
  static std::vector<char> bytes(64 << 20);
  for (size_t i = 0; i < bytes.size(); i += 64) bytes[i] = static_cast<char>(bytes[i] + 1);
  bench::Escape(bytes.data());
}

double NowNs() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

Result Warm(Once once) {
  Result r;
  for (int round = 0; round < 200; ++round) {
    constexpr int kCalls = 500;
    const double begin = NowNs();
    for (int i = 0; i < kCalls; ++i) r.frames = once();
    r.best_ns = std::min(r.best_ns, (NowNs() - begin) / kCalls);
  }
  return r;
}

// The median of single walks: the least would be a lucky one.
Result Cold(Once once) {
  Result r;
  std::vector<double> times;
  for (int round = 0; round < 41; ++round) {
    FlushCaches();
    const double begin = NowNs();
    r.frames = once();
    times.push_back(NowNs() - begin);
  }
  std::sort(times.begin(), times.end());
  r.best_ns = times[times.size() / 2];
  return r;
}

void Measure() {
  const auto print = [](const char* name, const Result& r) {
    printf("%s_ns=%.0f %s_frames=%zu\n", name, r.best_ns, name, r.frames);
  };
  print("strata_warm", Warm(Strata));
  print("strata_cold", Cold(Strata));
  print("glibc_warm", Warm(Glibc));
  print("glibc_cold", Cold(Glibc));
  if (g_unw_backtrace == nullptr) {
    printf("libunwind is not installed (apt install libunwind8)\n");
    return;
  }
  print("libunwind_warm", Warm(Libunwind));
  print("libunwind_cold", Cold(Libunwind));
}

// Frames of different sizes, each of which keeps some registers.
__attribute__((noinline)) int Down(size_t depth, int a, int b);
template <int N>
__attribute__((noinline)) int Level(size_t depth, int a, int b) {
  volatile int kept[4 + N * 8];
  kept[N] = a * b;
  return Down(depth - 1, a + N, b) + kept[N];
}
int Down(size_t depth, int a, int b) {
  if (depth == 0) {
    Measure();
    return 0;
  }
  switch (depth % 4) {
    case 0:
      return Level<1>(depth, a, b) + 1;
    case 1:
      return Level<3>(depth, a, b) + a;
    case 2:
      return Level<7>(depth, a, b) + b;
    default:
      return Level<15>(depth, a, b) - 1;
  }
}

template <class F>
F Symbol(void* library, const char* name) {
  return reinterpret_cast<F>(dlsym(library, name));
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const size_t depth = options.Count("depth", 20);
  const char* path = options.Text("walk", "build/bench/libstackprobe.so");
  options.RejectUnknown();
  void* probe = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (probe == nullptr) bench::Die("--walk: run scripts/build-stack-probe.sh first");
  g_walk = Symbol<WalkFunction>(probe, "probe_walk");
  const auto refresh = Symbol<int (*)()>(probe, "probe_refresh");
  void* frames[4];
  backtrace(frames, 4);  // loads libgcc now
  if (void* unwind = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL))
    g_unw_backtrace = Symbol<IntWalkFunction>(unwind, "unw_backtrace");
  if (!refresh()) bench::Die("no memory for the tables");
  Down(depth, argc, 3);
  return 0;
}
