// cache-thrash (active false sharing, Hoard): each thread, over and over, allocates an object,
// writes its bytes many times and frees it. The repetitions are divided by the threads, so the
// ideal time with P threads on P cores is T1/P.
#include "false_sharing.h"

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const auto threads = static_cast<unsigned>(options.Count("threads", 1));
  const auto iterations = static_cast<uint64_t>(options.Scaled("iterations", 1000));
  const size_t size = options.Count("size", 1);
  const uint64_t repetitions = options.Count("repetitions", 400'000);
  options.RejectUnknown();
  if (threads == 0 || size == 0 || iterations == 0) bench::Die("counts must be above zero");

  const bench::Total total = bench::RunThreads(threads, [&](unsigned) {
    bench::Tally tally;
    const uint64_t start = bench::NowNs();
    tally.ops = bench::ActiveLoop(iterations, size, repetitions / threads);
    tally.seconds = bench::Since(start);
    return tally;
  });

  bench::Report report("cache-thrash");
  report.Add("size=%zu iterations=%llu", size, static_cast<unsigned long long>(iterations));
  report.Rate(total);
  report.Finish();
  return 0;
}
