// A server whose load comes and goes: phases of 1, 8, 2 and 6 threads, each phase with another mix
// of sizes, as in the warehouse study's Figure 9. Each thread keeps a window of live objects and
// replaces them at random; between the phases all but one set of threads rest. Prints the rate, the
// mean and peak RSS, the caches' mean and peak bytes, and misses an operation. Compare
// STRATA_ADAPTIVE=on and off: at equal totals the caches should hold less and miss no more.
#include "common.h"

#include <dlfcn.h>

namespace {

constexpr unsigned kPhases[] = {1, 8, 2, 6};
constexpr unsigned kMostThreads = 8;

using JsonFunction = size_t (*)(char*, size_t);

// Figures of Strata itself, where it is the allocator; 0 elsewhere.
struct CacheFigures {
  uint64_t bytes = 0;
  uint64_t misses = 0;
};
CacheFigures ReadCaches() {
  static const auto json = reinterpret_cast<JsonFunction>(dlsym(RTLD_DEFAULT, "strata_stats_json"));
  static bench::Array<char> text(1 << 20);
  CacheFigures f;
  if (json == nullptr) return f;
  json(text.data(), text.size());
  const auto number = [](const char* from, const char* key) -> uint64_t {
    const char* at = from == nullptr ? nullptr : strstr(from, key);
    return at == nullptr ? 0 : strtoull(at + strlen(key), nullptr, 10);
  };
  f.bytes = number(text.data(), "\"caches\":");
  const char* cache = strstr(text.data(), "\"cache\":{");
  f.misses = number(cache, "\"misses_alloc\":") + number(cache, "\"misses_free\":");
  return f;
}

// Sizes of phase p: a band of its own, mostly small.
uint64_t SizeIn(unsigned phase, bench::Random& random) {
  constexpr uint64_t kBase[] = {24, 200, 64, 1500};
  const uint64_t u = random.Below(256);
  return kBase[phase % 4] * (1 + u * u * u / (1 << 21));  // up to eight times, mostly once
}

struct Worker {
  static constexpr size_t kWindow = 6000;
  void* window[kWindow];
  size_t used;
  uint64_t ops;
};

struct Shared {
  std::atomic<unsigned> phase{0};
  std::atomic<unsigned> threads{0};
  std::atomic<bool> stop{false};
};

// One operation is a malloc or a free. Bursts: a batch of frees, then as many mallocs.
uint64_t Burst(Worker& w, unsigned phase, bench::Random& random) {
  const size_t n = 1 + random.Below(600);
  uint64_t ops = 0;
  for (size_t i = 0; i < n && w.used > 0; ++i, ++ops) {
    const size_t at = random.Below(w.used);
    free(w.window[at]);
    w.window[at] = w.window[--w.used];
  }
  while (w.used < Worker::kWindow && ops < 2 * n) {
    const uint64_t size = SizeIn(phase, random);
    auto* p = static_cast<char*>(bench::CheckedMalloc(size));
    memset(p, 1, size);
    w.window[w.used++] = p;
    ++ops;
  }
  return ops;
}

void Empty(Worker& w) {
  while (w.used > 0) free(w.window[--w.used]);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const double phase_seconds = options.Scaled("phase", 12.0);
  const uint64_t cycles = options.Count("cycles", 2);
  options.RejectUnknown();
  if (cycles == 0) bench::Die("--cycles of at least one");

  bench::Array<Worker> workers(kMostThreads);
  Shared shared;
  struct Start {
    Shared* shared;
    Worker* worker;
    unsigned index;
  };
  bench::Array<Start> starts(kMostThreads);
  bench::Array<pthread_t> threads(kMostThreads);
  shared.threads = kPhases[0];
  for (unsigned i = 0; i < kMostThreads; ++i) {
    starts[i] = {&shared, &workers[i], i};
    const auto entry = [](void* raw) -> void* {
      auto* s = static_cast<Start*>(raw);
      bench::Random random(s->index + 1);
      while (!s->shared->stop) {
        if (s->index >= s->shared->threads) {  // at rest: a pool's thread waits for work
          Empty(*s->worker);
          const timespec nap{0, 20'000'000};
          nanosleep(&nap, nullptr);
          continue;
        }
        s->worker->ops += Burst(*s->worker, s->shared->phase, random);
      }
      Empty(*s->worker);
      return nullptr;
    };
    if (pthread_create(&threads[i], nullptr, entry, &starts[i]) != 0) bench::Die("no thread");
  }

  uint64_t samples = 0, rss_sum = 0, rss_peak = 0, cache_sum = 0, cache_peak = 0;
  const uint64_t start = bench::NowNs();
  const CacheFigures first = ReadCaches();
  for (uint64_t phase = 0; phase < 4 * cycles; ++phase) {
    shared.phase = static_cast<unsigned>(phase % 4);
    shared.threads = kPhases[phase % 4];
    const uint64_t end =
        start + static_cast<uint64_t>(phase_seconds * 1e9 * static_cast<double>(phase + 1));
    while (bench::NowNs() < end) {
      const timespec nap{0, 250'000'000};
      nanosleep(&nap, nullptr);
      const uint64_t rss = bench::RssKib();
      const uint64_t cached = ReadCaches().bytes;
      ++samples;
      rss_sum += rss;
      cache_sum += cached;
      rss_peak = rss > rss_peak ? rss : rss_peak;
      cache_peak = cached > cache_peak ? cached : cache_peak;
    }
  }
  const CacheFigures last = ReadCaches();
  shared.stop = true;
  bench::Total total;
  total.threads = kMostThreads;
  total.longest = bench::Since(start);
  for (unsigned i = 0; i < kMostThreads; ++i) {
    pthread_join(threads[i], nullptr);
    total.ops += workers[i].ops;
  }
  total.busy = total.longest;

  bench::Report report("tides");
  report.Add("cycles=%llu", static_cast<unsigned long long>(cycles));
  report.Rate(total);
  const auto u = [](uint64_t n) { return static_cast<unsigned long long>(n); };
  report.Add("rss_mean_kib=%llu rss_peak_kib=%llu", u(rss_sum / samples), u(rss_peak));
  report.Add("cache_mean_kib=%llu cache_peak_kib=%llu", u(cache_sum / samples / 1024),
             u(cache_peak / 1024));
  report.Add("misses_per_kop=%.4f", static_cast<double>(last.misses - first.misses) * 1e3 /
                                        static_cast<double>(total.ops));
  report.Finish();
  return 0;
}
