// Batches: allocate `count` objects of one size, then free them all in the same order. Small
// batches stay in the caches; large ones overflow them and go through the middle tier.
#include "common.h"

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const size_t size = options.Count("size", 64);
  const size_t count = options.Count("count", 1000);
  const auto threads = static_cast<unsigned>(options.Count("threads", 1));
  const double seconds = options.Scaled("seconds", 1.0);
  options.RejectUnknown();
  if (count == 0 || size == 0) bench::Die("--count and --size must be above zero");

  const bench::Total total = bench::RunThreads(threads, [&](unsigned) {
    bench::Array<char*> objects(count);
    const auto pass = [&]() -> uint64_t {
      for (size_t i = 0; i < count; ++i) {
        objects[i] = static_cast<char*>(bench::CheckedMalloc(size));
        *objects[i] = 1;
      }
      for (size_t i = 0; i < count; ++i) free(objects[i]);
      return count;
    };
    pass();  // the first one pays for the page faults
    return bench::RunFor(seconds, pass);
  });

  bench::Report report("batch");
  report.Add("size=%zu count=%zu", size, count);
  report.Rate(total);
  report.Finish();
  return 0;
}
