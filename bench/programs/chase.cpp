// Pointer chase: 1 GiB of 256 B objects allocated one by one through malloc, linked into one random
// cycle and followed. Every hop misses the caches and mostly the TLB: the time shows whether the
// heap sits on hugepages. Reports ns a hop, best and mean of stretches of 0.1 s.
#include "common.h"

namespace {

struct Node {
  Node* next;
};

uint64_t AnonHugeKib() { return bench::FieldOf("/proc/self/smaps_rollup", "AnonHugePages:"); }

uint64_t AnonymousKib() { return bench::FieldOf("/proc/self/smaps_rollup", "Anonymous:"); }

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const auto bytes = static_cast<uint64_t>(options.Number("mib", 1024) * 1048576);
  const size_t size = options.Count("size", 256);
  const double seconds = options.Scaled("seconds", 1.5);
  options.RejectUnknown();
  if (size < sizeof(Node)) bench::Die("--size must hold a pointer");
  const size_t count = bytes / size;
  if (count < 2) bench::Die("--mib too small");

  Node* start = nullptr;
  {
    bench::Array<Node*> nodes(count);
    for (size_t i = 0; i < count; ++i) {
      auto* p = static_cast<char*>(bench::CheckedMalloc(size));
      memset(p, 0, size);
      nodes[i] = reinterpret_cast<Node*>(p);
    }
    // Sattolo's shuffle gives one cycle through all the nodes.
    bench::Random random(9);
    for (size_t i = count - 1; i > 0; --i) {
      const size_t k = random.Below(i);
      Node* swapped = nodes[i];
      nodes[i] = nodes[k];
      nodes[k] = swapped;
    }
    for (size_t i = 0; i < count; ++i) nodes[i]->next = nodes[(i + 1) % count];
    start = nodes[0];
  }
  const uint64_t huge_kib = AnonHugeKib();
  const uint64_t anonymous_kib = AnonymousKib();

  constexpr double kStretch = 0.1;
  double best = 1e30;
  Node* at = start;
  const bench::Total total = bench::RunThreads(1, [&](unsigned) {
    bench::Tally sum;
    while (sum.seconds < seconds) {
      const bench::Tally tally = bench::RunFor(kStretch < seconds ? kStretch : seconds, [&] {
        constexpr uint64_t kChunk = 4096;
        for (uint64_t i = 0; i < kChunk; ++i) at = at->next;
        bench::Escape(at);
        return kChunk;
      });
      const double ns = tally.seconds * 1e9 / static_cast<double>(tally.ops);
      if (ns < best) best = ns;
      sum.ops += tally.ops;
      sum.seconds += tally.seconds;
    }
    return sum;
  });

  bench::Report report("chase");
  report.Add("size=%zu count=%zu", size, count);
  report.Rate(total);
  report.Add("best_ns=%.4f", best);
  report.Add("coverage=%.4f", anonymous_kib == 0 ? 0.0
                                                 : static_cast<double>(huge_kib) /
                                                       static_cast<double>(anonymous_kib));
  report.Finish();
  return 0;
}
