// A service in a container: live data close to what the container allows, and sizes that change, so
// that memory freed by one kind of object must serve the next. Objects die oldest first, with some
// disorder. The live bytes, the program's own table among them, never exceed --live (MiB); what an
// allocator needs above that decides whether the kernel kills it. Run under a memory limit by
// bench/container.py. Reports operations a second and the peak of live bytes.
#include "common.h"

namespace {

constexpr uint32_t kSizes[] = {150, 9000, 400, 60000, 1000, 128, 3000, 300000, 250, 20000};
constexpr size_t kSlots = 1'300'000;  // of a ring, all of which counts as live data
constexpr uint64_t kTable = kSlots * sizeof(void*);

// Objects begin with their size.
struct Object {
  uint32_t size;
};

class Service {
 public:
  Service(uint64_t live_limit, uint64_t seed) : limit_(live_limit), random_(seed), ring_(kSlots) {}

  void Phase(uint32_t size) {
    for (uint64_t made = 0; made < limit_;) {
      const auto n = static_cast<uint32_t>(size + random_.Below(size));
      while (live_ + n + kTable > limit_ || last_ - first_ == kSlots) FreeOne();
      auto* o = static_cast<Object*>(bench::CheckedMalloc(n));
      memset(o, 1, n);
      o->size = n;
      ring_[last_++ % kSlots] = o;
      live_ += n;
      made += n;
      ++operations_;
      if (live_ + kTable > peak_) peak_ = live_ + kTable;
    }
  }

  // All at once, as at the end of a batch.
  void FreeAll() {
    while (first_ != last_) FreeOne();
  }

  uint64_t operations() const { return operations_; }
  uint64_t peak() const { return peak_; }

 private:
  // One of the oldest 256.
  void FreeOne() {
    const uint64_t among = last_ - first_ < 256 ? last_ - first_ : 256;
    const uint64_t i = first_ + random_.Below(among);
    Object* o = ring_[i % kSlots];
    ring_[i % kSlots] = ring_[first_ % kSlots];
    ++first_;
    live_ -= o->size;
    free(o);
  }

  uint64_t limit_;
  bench::Random random_;
  bench::Array<Object*> ring_;
  uint64_t live_ = 0;  // without the table
  uint64_t first_ = 0;
  uint64_t last_ = 0;
  uint64_t peak_ = 0;
  uint64_t operations_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const uint64_t live = options.Count("live", 217) << 20;
  const uint64_t rounds = options.Count("rounds", 3);
  const uint64_t seed = options.Count("seed", 1);
  options.RejectUnknown();
  Service service(live, seed);
  const uint64_t start = bench::NowNs();
  for (uint64_t i = 0; i < rounds; ++i) {
    for (const uint32_t size : kSizes) service.Phase(size);
    service.FreeAll();
  }
  const double seconds = bench::Since(start);
  bench::Report report("container");
  report.Add("live_mib=%llu peak_live_kib=%llu", static_cast<unsigned long long>(live >> 20),
             static_cast<unsigned long long>(service.peak() / 1024));
  report.Add("ops=%llu seconds=%.4f", static_cast<unsigned long long>(service.operations()),
             seconds);
  report.Add("peak_rss_kib=%llu", static_cast<unsigned long long>(bench::PeakRssKib()));
  report.Finish();
  return 0;
}
