// threadtest (Hoard): t threads, each allocates count/t objects of one size and then frees them in
// order, again and again; --work spins between the calls. The definition gives 8-byte objects,
// 100,000 in all; iterations are bounded by time instead of a number.
#include "common.h"

namespace {

void Spin(uint64_t turns) {
  for (uint64_t i = 0; i < turns; ++i) asm volatile("" : : : "memory");
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const auto threads = static_cast<unsigned>(options.Count("threads", 1));
  const size_t size = options.Count("size", 8);
  const size_t count = options.Count("count", 100'000);
  const uint64_t work = options.Count("work", 0);
  const double seconds = options.Scaled("seconds", 1.0);
  options.RejectUnknown();
  if (threads == 0 || count / threads == 0) bench::Die("at least one object a thread");
  if (size == 0) bench::Die("--size must be above zero");
  const size_t share = count / threads;

  const bench::Total total = bench::RunThreads(threads, [&](unsigned) {
    bench::Array<char*> objects(share);
    const auto pass = [&]() -> uint64_t {
      for (size_t i = 0; i < share; ++i) {
        Spin(work);
        objects[i] = static_cast<char*>(bench::CheckedMalloc(size));
        *objects[i] = 1;
      }
      for (size_t i = 0; i < share; ++i) {
        Spin(work);
        free(objects[i]);
      }
      return share;
    };
    pass();  // the first one pays for the page faults
    return bench::RunFor(seconds, pass);
  });

  bench::Report report("threadtest");
  report.Add("size=%zu count=%zu work=%llu", size, count, static_cast<unsigned long long>(work));
  report.Rate(total);
  report.Finish();
  return 0;
}
