// Work without an end, which a region can't do: its memory grows with all that was ever allocated.
// --load=random: objects come and go in any order, while their sizes drift; --load=queue: a
// producer's objects are freed by a consumer, another thread. --heap: bump, reap or malloc. `over`
// is the most that was held, less one chunk, over what was live then.
// build flags: -lstrata
#include "regions.h"

namespace {

constexpr size_t kChunk = 128 << 10;  // a reap's largest

class SharedReapRegion {
 public:
  SharedReapRegion() : reap_(strata_reap_create_shared(nullptr)) {}
  ~SharedReapRegion() { strata_reap_destroy(reap_); }
  void Begin() {}
  void* Allocate(size_t size) {
    void* p = strata_reap_malloc(reap_, size);
    if (p == nullptr) bench::Die("the reap gave null");
    return p;
  }
  void Free(void* p) { strata_reap_free(reap_, p); }
  size_t Held() const { return strata_reap_held(reap_); }

 private:
  strata_reap* reap_;
};

class Watch {
 public:
  void Look(size_t held, size_t live) {
    if (held <= kChunk || live == 0) return;
    const double over = static_cast<double>(held - kChunk) / static_cast<double>(live);
    if (over > worst_) worst_ = over;
  }
  double worst() const { return worst_; }

 private:
  double worst_ = 0;
};

template <class Memory>
bench::Total Random(size_t steps, Watch& watch) {
  return bench::RunThreads(1, [&](unsigned) {
    constexpr size_t kLive = 3000;
    struct Slot {
      char* p;
      size_t size;
    };
    Memory memory;
    memory.Begin();
    bench::Random random(1);
    bench::Array<Slot> slots(kLive);
    size_t live = 0;
    bench::Tally tally;
    const uint64_t start = bench::NowNs();
    for (size_t i = 0; i < steps; ++i) {
      Slot& s = slots[random.Below(kLive)];
      if (s.p != nullptr) memory.Free(s.p);
      live -= s.size;
      s.size = 16 + random.Below(500) + i * 4 / steps * 333;
      s.p = static_cast<char*>(memory.Allocate(s.size));
      s.p[0] = s.p[s.size - 1] = 1;
      live += s.size;
      if (i % 64 == 0 && i > 10 * kLive) watch.Look(memory.Held(), live);
    }
    tally.seconds = bench::Since(start);
    tally.ops = steps;
    return tally;
  });
}

template <class Memory>
bench::Total Queue(size_t steps, Watch& watch) {
  constexpr size_t kRoom = 4096, kBehind = kRoom - 256;
  Memory memory;
  memory.Begin();
  bench::Array<std::atomic<char*>> slots(kRoom);
  bench::Array<size_t> sizes(kRoom);
  std::atomic<size_t> freed{0};  // bytes
  return bench::RunThreads(2, [&](unsigned thread) {
    bench::Random random(1);
    bench::Tally tally;
    size_t made = 0;
    const uint64_t start = bench::NowNs();
    for (size_t i = 0; i < steps; ++i) {
      std::atomic<char*>& slot = slots[i % kRoom];
      if (thread == 0) {
        while (slot.load(std::memory_order_acquire) != nullptr) sched_yield();
        const size_t size = 16 + random.Below(1000);
        auto* p = static_cast<char*>(memory.Allocate(size));
        p[0] = p[size - 1] = 1;
        sizes[i % kRoom] = size;
        made += size;
        slot.store(p, std::memory_order_release);
        const size_t gone = freed.load(std::memory_order_acquire);
        if (i % 64 == 0 && i > 10 * kRoom) watch.Look(memory.Held(), made - gone);
      } else {
        // So that the queue stays about as long as it is, and what is live as large.
        while (i + kBehind < steps && slots[(i + kBehind) % kRoom].load() == nullptr) sched_yield();
        char* p = slot.load(std::memory_order_acquire);
        const size_t size = sizes[i % kRoom];
        memory.Free(p);
        slot.store(nullptr, std::memory_order_release);
        freed.fetch_add(size, std::memory_order_release);
      }
    }
    tally.seconds = bench::Since(start);
    tally.ops = thread == 0 ? steps : 0;
    return tally;
  });
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const char* heap = options.Text("heap", "reap");
  const char* load = options.Text("load", "random");
  const auto steps = static_cast<size_t>(options.Scaled("steps", 1e6));
  options.RejectUnknown();
  Watch watch;
  bench::Total total;
  if (strcmp(load, "random") == 0) {
    total = bench::WithMemory(heap, [&]<class Memory>() { return Random<Memory>(steps, watch); });
  } else if (strcmp(load, "queue") != 0) {
    bench::Die("--load: random or queue");
  } else if (strcmp(heap, "reap") == 0) {
    total = Queue<SharedReapRegion>(steps, watch);
  } else {
    total = bench::WithMemory(heap, [&]<class Memory>() { return Queue<Memory>(steps, watch); });
  }
  bench::Report report("longrun");
  report.Rate(total);
  if (watch.worst() > 0) report.Add("over=%.4f", watch.worst());
  report.Finish();
  return 0;
}
