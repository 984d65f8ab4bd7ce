// What it costs on this machine, at this moment, that another CPU's cache has a line: two threads
// hand one to and fro. Where a hypervisor moves the CPUs of a virtual machine, now onto cores that
// share a cache and now onto others, this is the figure that says so.
#include "common.h"

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const double seconds = options.Scaled("seconds", 0.1);
  options.RejectUnknown();

  // Whose turn it is; negative when the time is up.
  struct alignas(128) Line {
    std::atomic<int64_t> turn{0};
  } line;
  const bench::Total total = bench::RunThreads(2, [&](unsigned index) {
    constexpr int64_t kOver = -1;
    bench::Tally tally;
    const uint64_t start = bench::NowNs();
    const uint64_t deadline = bench::Deadline(seconds);
    for (uint64_t spins = 0;; ++spins) {
      const int64_t turn = line.turn.load(std::memory_order_acquire);
      if (turn == kOver) break;
      if (static_cast<unsigned>(turn & 1) != index) {
        // The other one may not be running.
        if (spins % 4096 == 0) sched_yield();
        continue;
      }
      const bool over = tally.ops % 256 == 0 && bench::NowNs() >= deadline;
      line.turn.store(over ? kOver : turn + 1, std::memory_order_release);
      ++tally.ops;
    }
    tally.seconds = bench::Since(start);
    return tally;
  });

  bench::Report report("handover");
  report.Add("handover_ns=%.2f", total.longest * 1e9 / static_cast<double>(total.ops));
  report.Rate(total);
  report.Finish();
  return 0;
}
