// A swinging load: the live heap moves between 200 MiB and 1 GiB every two seconds. Each phase goes
// to its level (allocating, or freeing at random) and then replaces objects at random until its
// time is up. Reports operations a second over whole cycles: memory that was given back too early
// must be faulted in again and shows as lost rate.
#include "common.h"

namespace {

constexpr uint64_t kMin = 16;
constexpr uint64_t kMax = 4096;

class Heap {
 public:
  explicit Heap(size_t capacity) : objects_(capacity), sizes_(capacity), random_(7) {}

  uint64_t live() const { return live_; }

  void Add() {
    if (count_ == objects_.size()) bench::Die("too many objects");
    // Cubed uniform: most objects are small, most bytes are in large ones.
    const uint64_t u = random_.Below(1024);
    const uint64_t size = kMin + (kMax - kMin) * u * u * u / (1024ull * 1024 * 1024);
    auto* p = static_cast<char*>(bench::CheckedMalloc(size));
    memset(p, 1, size);
    objects_[count_] = p;
    sizes_[count_++] = static_cast<uint32_t>(size);
    live_ += size;
  }

  void RemoveRandom() {
    const size_t i = random_.Below(count_);
    free(objects_[i]);
    live_ -= sizes_[i];
    --count_;
    objects_[i] = objects_[count_];
    sizes_[i] = sizes_[count_];
  }

  bool empty() const { return count_ == 0; }

 private:
  bench::Array<char*> objects_;
  bench::Array<uint32_t> sizes_;
  bench::Random random_;
  size_t count_ = 0;
  uint64_t live_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const auto low = static_cast<uint64_t>(options.Number("low-mib", 200) * 1048576);
  const auto high = static_cast<uint64_t>(options.Number("high-mib", 1024) * 1048576);
  const double phase_seconds = options.Scaled("phase", 2.0);
  const uint64_t cycles = options.Count("cycles", 3);
  options.RejectUnknown();
  if (low >= high || cycles == 0) bench::Die("--low-mib below --high-mib, at least one cycle");

  // The mean size is a quarter of the largest; four times that many slots cannot run out.
  Heap heap(high / 256 + 1024);
  while (heap.live() < low) heap.Add();

  constexpr uint64_t kChunk = 256;
  uint64_t rss_low_kib = 0;
  uint64_t rss_high_kib = 0;
  const bench::Total total = bench::RunThreads(1, [&](unsigned) {
    bench::Tally tally;
    const uint64_t start = bench::NowNs();
    for (uint64_t phase = 0; phase < 2 * cycles; ++phase) {
      const bool growing = phase % 2 == 0;
      const uint64_t deadline =
          start + static_cast<uint64_t>(phase_seconds * 1e9 * static_cast<double>(phase + 1));
      while (bench::NowNs() < deadline) {
        // An operation is one malloc or one free.
        for (uint64_t i = 0; i < kChunk; ++i) {
          if (growing && heap.live() < high) {
            heap.Add();
            tally.ops += 1;
          } else if (!growing && heap.live() > low) {
            heap.RemoveRandom();
            tally.ops += 1;
          } else {
            heap.RemoveRandom();
            heap.Add();
            tally.ops += 2;
          }
        }
      }
      (growing ? rss_high_kib : rss_low_kib) = bench::RssKib();
    }
    tally.seconds = bench::Since(start);
    return tally;
  });
  while (!heap.empty()) heap.RemoveRandom();

  bench::Report report("swing");
  report.Add("cycles=%llu", static_cast<unsigned long long>(cycles));
  report.Rate(total);
  report.Add("rss_high_kib=%llu rss_low_kib=%llu", static_cast<unsigned long long>(rss_high_kib),
             static_cast<unsigned long long>(rss_low_kib));
  report.Finish();
  return 0;
}
