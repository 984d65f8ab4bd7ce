// Burst and idle: fill to 1 GiB of 64 B to 4 KiB objects, free 95 % (--free=random, or the oldest
// with --free=oldest), then sleep without calling the allocator and watch what goes back to the
// kernel. Sizes and survivors follow from the index, so the bookkeeping is one pointer an object,
// cut down to the survivors before the first look. Ends by checking every survivor's bytes.
#include "common.h"
#include "memory_cgroup.h"

namespace {

constexpr uint64_t kMin = 64;
constexpr uint64_t kMax = 4096;
constexpr size_t kPage = 4096;

struct Object {
  char* address;
  uint32_t size;
};

uint64_t ToKib(uint64_t bytes) { return bytes / 1024; }

// 4 KiB pages that hold at least one byte of an object.
uint64_t CountPages(bench::Array<Object>& objects, size_t count) {
  size_t touched = 0;
  for (size_t i = 0; i < count; ++i) touched += objects[i].size / kPage + 2;
  bench::Array<uint64_t> pages(touched + 1);
  size_t used = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto first = reinterpret_cast<uintptr_t>(objects[i].address);
    for (uintptr_t page = first / kPage; page <= (first + objects[i].size - 1) / kPage; ++page) {
      pages[used++] = page;
    }
  }
  qsort(pages.data(), used, sizeof(uint64_t), [](const void* a, const void* b) {
    const auto left = *static_cast<const uint64_t*>(a);
    const auto right = *static_cast<const uint64_t*>(b);
    return left < right ? -1 : left > right ? 1 : 0;
  });
  uint64_t distinct = 0;
  for (size_t i = 0; i < used; ++i) distinct += i == 0 || pages[i] != pages[i - 1];
  return distinct;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const auto target = static_cast<uint64_t>(options.Scaled("mib", 1024) * 1024 * 1024);
  const char* which = options.Text("free", "random");
  const double keep = options.Number("keep", 0.05);
  const auto idle = static_cast<unsigned>(options.Count("idle", 10));
  options.RejectUnknown();
  const bool oldest = strcmp(which, "oldest") == 0;

  bench::PhysicalMemory physical;
  const size_t capacity = target / kMin + 1;
  bench::Array<Object> objects(capacity);
  bench::Random random(42);

  const uint64_t fill_start = bench::NowNs();
  uint64_t filled = 0;
  size_t count = 0;
  while (filled < target) {
    const auto size = static_cast<uint32_t>(random.Between(kMin, kMax));
    auto* p = static_cast<char*>(bench::CheckedMalloc(size));
    memset(p, static_cast<int>(count & 0xFF), size);
    objects[count++] = Object{p, size};
    filled += size;
  }
  const double fill_seconds = bench::Since(fill_start);

  const uint64_t free_start = bench::NowNs();
  const auto first_kept = static_cast<size_t>(static_cast<double>(count) * (1 - keep));
  size_t kept = 0;
  uint64_t live = 0;
  for (size_t i = 0; i < count; ++i) {
    const bool survives =
        oldest ? i >= first_kept : static_cast<double>(random.Below(1'000'000)) < keep * 1'000'000;
    if (survives) {
      live += objects[i].size;
      objects[kept++] = objects[i];
    } else {
      free(objects[i].address);
    }
  }
  const double free_seconds = bench::Since(free_start);
  objects.ReleaseTail(kept);
  const uint64_t pages = CountPages(objects, kept);

  // One sample a second, from right after the frees to the end of the idle time.
  char rss_series[1024];
  char physical_series[1024];
  size_t rss_used = 0;
  size_t physical_used = 0;
  uint64_t rss_kib = 0;
  uint64_t physical_kib = 0;
  for (unsigned second = 0; second <= idle; ++second) {
    if (second != 0) {
      const timespec pause{1, 0};
      nanosleep(&pause, nullptr);
    }
    rss_kib = bench::RssKib();
    physical_kib = physical.UsedKib();
    if (rss_used < sizeof rss_series - 16 && physical_used < sizeof physical_series - 16) {
      const char* format = second == 0 ? "%llu" : ",%llu";
      rss_used += static_cast<size_t>(snprintf(rss_series + rss_used, sizeof rss_series - rss_used,
                                               format, static_cast<unsigned long long>(rss_kib)));
      physical_used += static_cast<size_t>(snprintf(physical_series + physical_used,
                                                    sizeof physical_series - physical_used, format,
                                                    static_cast<unsigned long long>(physical_kib)));
    }
  }

  // Survivors carry their index's low byte from end to end; kept ones moved, so compare inside.
  for (size_t i = 0; i < kept; ++i) {
    const char* p = objects[i].address;
    for (size_t at = 1; at < objects[i].size; ++at) {
      if (p[at] != p[0]) bench::Die("a survivor lost its bytes");
    }
  }

  const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  bench::Report report("burst");
  report.Add("free=%s objects=%zu survivors=%zu", which, count, kept);
  report.Add("live_kib=%llu", number(ToKib(live)));
  report.Add("survivor_pages_kib=%llu", number(pages * kPage / 1024));
  report.Add("idle=%u rss_kib=%llu", idle, number(rss_kib));
  report.Add("physical=%s physical_kib=%llu", physical.Kind(), number(physical_kib));
  report.Add("fill_s=%.4f free_s=%.4f", fill_seconds, free_seconds);
  report.Add("rss_series_kib=%s", rss_series);
  report.Add("physical_series_kib=%s", physical_series);
  report.Finish();
  return 0;
}
