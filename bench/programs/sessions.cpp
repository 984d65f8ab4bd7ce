// Sessions in a box: a server's live data, cut down and grown again in other sizes. A session is a
// row of objects of mixed sizes, made together and freed together. The load grows to --live (MiB),
// sessions end at random until --low is left, and it grows again in sizes of another mix, --rounds
// times: memory that one size gave up must serve the next, around the sessions that stayed. Run in
// memory cgroups of falling size, by hand so far, it tells how much room above
// its live bytes an allocator needs. The table of objects counts as live.
//
// With --pages=1 it also counts the native pages in which any byte of a live object lies, at every
// 2 MiB of growth: what no allocator that keeps objects where they are can give back. Where their
// most is what the process needs, caches, free pages and records are not what it is short of.
// On 2026-11-26 `sessions --pages=1` counts 215 MiB of them with glibc, 281 with Strata, 282 with
// mimalloc 2, 284 with gperftools and 288 with jemalloc 5.3, and Strata lives from 286 MiB on: it
// holds no more than that near a limit. With size classes the objects of one session lie on as many
// pages as it has sizes, each among those of other sessions; glibc's lie side by side and come free
// as one piece.
#include <malloc.h>

#include <algorithm>

#include "common.h"

namespace {

constexpr size_t kMostObjects = 64;  // of a session

struct Session {
  void* objects[kMostObjects];
  uint32_t count;
  uint32_t bytes;
};

// Mean sizes of a round's mixes, in turn: mostly small objects, and each session has a few larger
// ones, as requests have headers and a body.
constexpr uint32_t kSmall[] = {96, 160, 64, 320, 48};
constexpr uint32_t kLarge[] = {3000, 6000, 12000, 2000, 24000};

class Server {
 public:
  enum class Counting : bool { kNothing, kPages };

  Server(uint64_t sessions, uint64_t most, uint64_t seed, Counting counting)
      : sessions_(sessions), most_(most), random_(seed), counting_(counting) {}

  // Until `bytes` are live.
  void Grow(uint64_t bytes, size_t round) {
    while (live_ < bytes) {
      if (count_ == sessions_.size()) bench::Die("more sessions than the table has");
      Session& s = sessions_[count_++];
      s.count = static_cast<uint32_t>(random_.Between(1, most_));
      s.bytes = sizeof(Session);
      for (uint32_t i = 0; i < s.count; ++i) {
        const uint32_t mean = random_.Below(8) == 0 ? kLarge[round % 5] : kSmall[round % 5];
        // From half the mean to four times it, the small ones more often.
        const uint64_t u = random_.Below(256);
        const auto size = static_cast<uint32_t>(mean / 2 + mean * u * u * u / (1u << 22));
        s.objects[i] = bench::CheckedMalloc(size);
        memset(s.objects[i], 1, size);
        s.bytes += size;
      }
      live_ += s.bytes;
      if (live_ > peak_) peak_ = live_;
      made_ += s.count;
      if (counting_ == Counting::kPages && live_ >> kStepShift != counted_at_) CountPages();
    }
  }

  // Sessions end at random until no more than `bytes` are live.
  void Cut(uint64_t bytes) {
    while (live_ > bytes) {
      const size_t at = random_.Below(count_);
      Session& s = sessions_[at];
      for (uint32_t i = 0; i < s.count; ++i) free(s.objects[i]);
      live_ -= s.bytes;
      s = sessions_[--count_];
    }
    sessions_.ReleaseTail(count_);
  }

  uint64_t peak() const { return peak_; }
  uint64_t made() const { return made_; }
  // The most so far; 0 if they are not counted.
  uint64_t live_pages() const { return live_pages_; }

 private:
  static constexpr uint64_t kStepShift = 21;
  static constexpr uint64_t kPageShift = 12;

  // Each page once: sorted by their numbers.
  void CountPages() {
    counted_at_ = live_ >> kStepShift;
    uint64_t n = 0;
    VisitPages([&n](uint64_t) { ++n; });
    bench::Array<uint64_t> pages(n);
    n = 0;
    VisitPages([&](uint64_t page) { pages[n++] = page; });
    std::sort(&pages[0], &pages[0] + n);
    const auto different = static_cast<uint64_t>(std::unique(&pages[0], &pages[0] + n) - &pages[0]);
    if (different > live_pages_) live_pages_ = different;
  }

  template <class F>
  void VisitPages(F f) {
    for (size_t i = 0; i < count_; ++i) {
      for (uint32_t k = 0; k < sessions_[i].count; ++k) {
        void* object = sessions_[i].objects[k];
        const auto first = reinterpret_cast<uint64_t>(object);
        const uint64_t last = first + malloc_usable_size(object) - 1;
        for (uint64_t page = first >> kPageShift; page <= last >> kPageShift; ++page) f(page);
      }
    }
  }

  bench::Array<Session> sessions_;
  uint64_t most_;
  bench::Random random_;
  size_t count_ = 0;
  uint64_t live_ = 0;
  uint64_t peak_ = 0;
  uint64_t made_ = 0;
  Counting counting_;
  uint64_t counted_at_ = 0;
  uint64_t live_pages_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const uint64_t live = options.Count("live", 212) << 20;
  const uint64_t low = options.Count("low", 60) << 20;
  const uint64_t rounds = options.Count("rounds", 5);
  const uint64_t most = options.Count("objects", kMostObjects);
  const uint64_t seed = options.Count("seed", 1);
  const bool pages = options.Count("pages", 0) != 0;
  options.RejectUnknown();
  if (most == 0 || most > kMostObjects) bench::Die("1 to 64 objects a session");
  Server server(live / 512, most, seed,
                pages ? Server::Counting::kPages : Server::Counting::kNothing);
  const uint64_t start = bench::NowNs();
  server.Grow(live, 0);
  for (uint64_t round = 1; round <= rounds; ++round) {
    server.Cut(low);
    server.Grow(live, round);
  }
  const double seconds = bench::Since(start);
  const auto u = [](uint64_t n) { return static_cast<unsigned long long>(n); };
  bench::Report report("sessions");
  report.Add("live_mib=%llu peak_live_kib=%llu", u(live >> 20), u(server.peak() / 1024));
  report.Add("ops=%llu seconds=%.4f", u(server.made()), seconds);
  if (pages) report.Add("live_pages_kib=%llu", u(server.live_pages() * 4));
  report.Add("peak_rss_kib=%llu", u(bench::PeakRssKib()));
  report.Finish();
  return 0;
}
