// Allocation and free by size, one thread: for each power of two from 8 B to 1 MiB and the size
// between it and the next, up to 64 objects at once (at most 4 MiB of them), allocated and then
// freed in order. ns is the geometric mean over the sizes; by_size has each one.
#include <cmath>

#include "common.h"

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const double seconds = options.Scaled("seconds", 1.0);
  const size_t largest = options.Count("max", 1 << 20);
  options.RejectUnknown();

  constexpr size_t kMaxSizes = 64;
  size_t sizes[kMaxSizes];
  size_t count = 0;
  for (size_t size = 8; size <= largest && count + 2 < kMaxSizes; size *= 2) {
    sizes[count++] = size;
    if (size + size / 2 <= largest) sizes[count++] = size + size / 2;
  }
  if (count == 0) bench::Die("--max must be at least 8");

  char series[4096];
  size_t used = 0;
  double sum_of_logs = 0;
  const bench::Total total = bench::RunThreads(1, [&](unsigned) {
    bench::Tally sum;
    for (size_t s = 0; s < count; ++s) {
      const size_t size = sizes[s];
      const size_t batch = size * 64 <= (4u << 20) ? 64 : (4u << 20) / size;
      char* objects[64];
      const auto pass = [&]() -> uint64_t {
        for (size_t i = 0; i < batch; ++i) {
          objects[i] = static_cast<char*>(bench::CheckedMalloc(size));
          *objects[i] = 1;
        }
        for (size_t i = 0; i < batch; ++i) free(objects[i]);
        return batch;
      };
      pass();  // the first one pays for the page faults
      const bench::Tally tally = bench::RunFor(seconds / static_cast<double>(count), pass);
      const double ns = tally.seconds * 1e9 / static_cast<double>(tally.ops);
      sum_of_logs += std::log(ns);
      used += static_cast<size_t>(
          snprintf(series + used, sizeof series - used, "%s%zu:%.2f", s == 0 ? "" : ",", size, ns));
      sum.ops += tally.ops;
      sum.seconds += tally.seconds;
    }
    return sum;
  });

  bench::Report report("bysize");
  report.Add("threads=1 ns=%.4f", std::exp(sum_of_logs / static_cast<double>(count)));
  report.Add("ops=%llu seconds=%.6f", static_cast<unsigned long long>(total.ops), total.longest);
  report.Add("by_size=%s", series);
  report.Finish();
  return 0;
}
