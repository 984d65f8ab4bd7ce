// cache-scratch (passive false sharing, Hoard): main allocates one object a thread, back to back,
// and hands them out. Each worker writes to its object, frees it, and then runs the active loop: an
// allocator that gives the freed neighbour back to the worker keeps two threads on one cache line
// for good. Repetitions are divided by the threads, so the ideal time is T1/P.
#include "false_sharing.h"

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const auto threads = static_cast<unsigned>(options.Count("threads", 1));
  const auto iterations = static_cast<uint64_t>(options.Scaled("iterations", 1000));
  const size_t size = options.Count("size", 1);
  const uint64_t repetitions = options.Count("repetitions", 400'000);
  options.RejectUnknown();
  if (threads == 0 || size == 0 || iterations == 0) bench::Die("counts must be above zero");

  bench::Array<char*> gifts(threads);
  for (unsigned i = 0; i < threads; ++i) {
    gifts[i] = static_cast<char*>(bench::CheckedMalloc(size));
  }
  const bench::Total total = bench::RunThreads(threads, [&](unsigned index) {
    bench::Tally tally;
    const uint64_t start = bench::NowNs();
    memset(gifts[index], 0, size);
    free(gifts[index]);
    tally.ops = bench::ActiveLoop(iterations, size, repetitions / threads);
    tally.seconds = bench::Since(start);
    return tally;
  });

  bench::Report report("cache-scratch");
  report.Add("size=%zu iterations=%llu", size, static_cast<unsigned long long>(iterations));
  report.Rate(total);
  report.Finish();
  return 0;
}
