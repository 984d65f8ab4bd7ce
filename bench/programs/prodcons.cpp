// Producer and consumer: one thread allocates objects of 16 B to 1 KiB and never frees, the other
// frees them and never allocates, so every object must find its way back through the shared tiers.
// Pointers travel in batches through a bounded ring. A third thread samples RSS against the bytes
// that are live at that moment: memory stranded at the freeing side shows as a growing difference.
//
// Ends after --ops objects, or after --seconds when --ops is 0.
#include "common.h"

namespace {

constexpr size_t kBatch = 256;
constexpr size_t kSamples = 20;

struct Batch {
  char* objects[kBatch];
  uint64_t bytes;
};

struct alignas(128) Index {
  std::atomic<uint64_t> value{0};
};

struct Channel {
  explicit Channel(size_t capacity) : ring(capacity) {}

  bench::Array<Batch> ring;
  Index produced;        // batches; written by the producer only
  Index consumed;        // batches; written by the consumer only
  Index bytes_produced;  // same writers, for the sampler
  Index bytes_consumed;
  std::atomic<bool> producer_done{false};
};

// Spins for a little, then gives the core away: with fewer cores than threads the other side may
// be waiting for this one's core.
template <typename Ready>
void WaitUntil(Ready ready) {
  for (unsigned spins = 0; !ready(); ++spins) {
    if (spins < 256) {
      __builtin_ia32_pause();
    } else {
      sched_yield();
    }
  }
}

uint64_t Produce(Channel& channel, uint64_t max_batches, uint64_t deadline) {
  bench::Random random(1);
  uint64_t sent = 0;
  uint64_t bytes = 0;
  while (sent < max_batches && ((sent & 15) != 0 || bench::NowNs() < deadline)) {
    WaitUntil([&] {
      return sent - channel.consumed.value.load(std::memory_order_acquire) < channel.ring.size();
    });
    Batch& batch = channel.ring[sent % channel.ring.size()];
    batch.bytes = 0;
    for (char*& object : batch.objects) {
      const size_t size = random.Between(16, 1024);
      object = static_cast<char*>(bench::CheckedMalloc(size));
      *object = 1;
      batch.bytes += size;
    }
    bytes += batch.bytes;
    channel.bytes_produced.value.store(bytes, std::memory_order_relaxed);
    channel.produced.value.store(++sent, std::memory_order_release);
  }
  channel.producer_done.store(true, std::memory_order_release);
  return sent;
}

void Consume(Channel& channel) {
  uint64_t taken = 0;
  uint64_t bytes = 0;
  for (;;) {
    bool finished = false;
    WaitUntil([&] {
      // The flag is read before the index: once it is set no further batch can appear.
      const bool done = channel.producer_done.load(std::memory_order_acquire);
      if (channel.produced.value.load(std::memory_order_acquire) != taken) return true;
      finished = done;
      return done;
    });
    if (finished) return;
    const Batch& batch = channel.ring[taken % channel.ring.size()];
    for (char* object : batch.objects) free(object);
    bytes += batch.bytes;
    channel.bytes_consumed.value.store(bytes, std::memory_order_relaxed);
    channel.consumed.value.store(++taken, std::memory_order_release);
  }
}

// RSS beyond what is live and what the process held before its first object, in KiB.
uint64_t AboveLiveKib(const Channel& channel, uint64_t base_kib) {
  const uint64_t freed = channel.bytes_consumed.value.load(std::memory_order_relaxed);
  const uint64_t made = channel.bytes_produced.value.load(std::memory_order_relaxed);
  const uint64_t live_kib = made > freed ? (made - freed) / 1024 : 0;
  const uint64_t rss_kib = bench::RssKib();
  return rss_kib > live_kib + base_kib ? rss_kib - live_kib - base_kib : 0;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const uint64_t ops = options.Count("ops", 0);
  const double seconds = options.Scaled("seconds", 2.0);
  const size_t ring = options.Count("ring", 64);
  options.RejectUnknown();
  if (ring == 0) bench::Die("--ring must be above zero");
  const uint64_t max_batches = ops == 0 ? UINT64_MAX : (ops + kBatch - 1) / kBatch;

  Channel channel(ring);
  memset(static_cast<void*>(channel.ring.data()), 0, ring * sizeof(Batch));
  const uint64_t base_kib = bench::RssKib();
  const uint64_t deadline = ops == 0 ? bench::Deadline(seconds) : UINT64_MAX;

  // Samples are taken every 10 ms and kept as the largest of each of kSamples stretches; with an
  // operation count the stretches are of operations, otherwise of time.
  uint64_t stretches[kSamples] = {};
  const uint64_t start_ns = bench::NowNs();
  const bench::Total total = bench::RunThreads(3, [&](unsigned index) {
    bench::Tally tally;
    const uint64_t thread_start = bench::NowNs();
    if (index == 0) tally.ops = Produce(channel, max_batches, deadline) * kBatch;
    if (index == 1) Consume(channel);
    if (index == 2) {
      const timespec pause{0, 10'000'000};
      while (!channel.producer_done.load(std::memory_order_acquire)) {
        const double progress = ops == 0 ? bench::Since(start_ns) / seconds
                                         : static_cast<double>(channel.produced.value.load()) /
                                               static_cast<double>(max_batches);
        auto at = static_cast<size_t>(progress * kSamples);
        if (at >= kSamples) at = kSamples - 1;
        const uint64_t above = AboveLiveKib(channel, base_kib);
        if (above > stretches[at]) stretches[at] = above;
        nanosleep(&pause, nullptr);
      }
    }
    tally.seconds = bench::Since(thread_start);
    return tally;
  });

  uint64_t max_first = 0;
  uint64_t max_second = 0;
  char series[kSamples * 12];
  size_t used = 0;
  for (size_t i = 0; i < kSamples; ++i) {
    uint64_t& max = i < kSamples / 2 ? max_first : max_second;
    if (stretches[i] > max) max = stretches[i];
    used +=
        static_cast<size_t>(snprintf(series + used, sizeof series - used, i == 0 ? "%llu" : ",%llu",
                                     static_cast<unsigned long long>(stretches[i])));
  }
  bench::Report report("prodcons");
  report.Add("threads=2 mops=%.4f ns=%.4f", static_cast<double>(total.ops) / total.longest * 1e-6,
             total.longest * 1e9 / static_cast<double>(total.ops));
  report.Add("ops=%llu seconds=%.6f", static_cast<unsigned long long>(total.ops), total.longest);
  report.Add("above_first_kib=%llu", static_cast<unsigned long long>(max_first));
  report.Add("above_second_kib=%llu", static_cast<unsigned long long>(max_second));
  report.Add("above_kib=%s", series);
  report.Finish();
  return 0;
}
