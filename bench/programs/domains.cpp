// Objects handed on within last-level-cache domains: in each of two domains one thread allocates
// and writes objects, and another of the same domain reads and frees them. Without a transfer cache
// for each domain the freed objects of one feed the other, and their lines cross. Compare
// STRATA_CACHE_DOMAINS=auto and off. On a machine with fewer than two domains of two CPUs it says
// skipped=1 and measures nothing.
#include "common.h"

namespace {

// The CPUs that share the highest cache of `cpu`; empty if the kernel does not say.
cpu_set_t SharersOf(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int index = 9; index >= 0; --index) {
    char path[128];
    char text[4096];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index%d/shared_cpu_list", cpu,
             index);
    const char* at = bench::ReadFile(path, text, sizeof text);
    if (*at == '\0') continue;
    while (*at >= '0' && *at <= '9') {
      char* end = nullptr;
      long first = strtol(at, &end, 10);
      const long last = *end == '-' ? strtol(end + 1, &end, 10) : first;
      for (; first <= last && first < CPU_SETSIZE; ++first) CPU_SET(static_cast<int>(first), &set);
      at = *end == ',' ? end + 1 : end;
    }
    break;
  }
  return set;
}

constexpr size_t kObjects = 4096;  // in flight between a pair; a power of two

struct alignas(128) Channel {
  std::atomic<uint64_t> written{0};
  alignas(128) std::atomic<uint64_t> read{0};
  alignas(128) void* slots[kObjects];
};

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const double seconds = options.Scaled("seconds", 10.0);
  const uint64_t size = options.Count("size", 512);
  options.RejectUnknown();
  if (size < 8) bench::Die("--size of at least 8");

  cpu_set_t allowed;
  sched_getaffinity(0, sizeof allowed, &allowed);
  int cpus[2][2];
  int domains = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE && domains < 2; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    cpu_set_t sharers = SharersOf(cpu);
    CPU_AND(&sharers, &sharers, &allowed);
    int found = 0;
    for (int other = 0; other < CPU_SETSIZE; ++other) {
      if (!CPU_ISSET(other, &sharers)) continue;
      CPU_CLR(other, &allowed);
      if (found < 2) cpus[domains][found++] = other;
    }
    domains += found == 2;
  }
  bench::Report report("domains");
  report.Add("domains=%d", domains);
  if (domains < 2) {
    report.Add("skipped=1");
    report.Finish();
    return 0;
  }

  bench::Array<Channel> channels(2);
  std::atomic<unsigned> writing{2};
  const bench::Total total = bench::RunThreads(4, [&](unsigned i) {
    const unsigned domain = i / 2;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpus[domain][i % 2], &one);
    sched_setaffinity(0, sizeof one, &one);
    Channel& channel = channels[domain];
    if (i % 2 == 0) {
      const bench::Tally tally = bench::RunFor(seconds, [&] {
        const uint64_t at = channel.written.load(std::memory_order_relaxed);
        const uint64_t room = kObjects - (at - channel.read.load(std::memory_order_acquire));
        for (uint64_t n = 0; n < room; ++n) {
          void* p = bench::CheckedMalloc(size);
          memset(p, static_cast<int>(n), size);
          channel.slots[(at + n) % kObjects] = p;
        }
        channel.written.store(at + room, std::memory_order_release);
        return room;
      });
      --writing;
      return tally;
    }
    bench::Tally tally;
    const uint64_t start = bench::NowNs();
    uint64_t sum = 0;
    while (true) {
      const bool last = writing.load() == 0;
      const uint64_t at = channel.read.load(std::memory_order_relaxed);
      const uint64_t end = channel.written.load(std::memory_order_acquire);
      for (uint64_t n = at; n < end; ++n) {
        auto* p = static_cast<unsigned char*>(channel.slots[n % kObjects]);
        for (uint64_t b = 0; b < size; b += 64) sum += p[b];
        free(p);
      }
      channel.read.store(end, std::memory_order_release);
      tally.ops += end - at;
      if (last && at == end) break;
    }
    bench::Escape(&sum);
    tally.seconds = bench::Since(start);
    return tally;
  });
  report.Rate(total);
  report.Finish();
  return 0;
}
