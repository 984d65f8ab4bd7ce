// How long a lock is held in a heap of 100 GiB: fills one over a kernel that does nothing, makes
// holes, and lets the background, a trim and the statistics loose on it. Lock is compiled with a
// hook here (STRATA_LOCK_HOLDS, tests/CMakeLists.txt); the clock is the thread's own, so that a
// busy machine does not count.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "heaps/strata.h"

namespace strata::test {
namespace {

constexpr HugePages kHeap{51'200};
constexpr HugePages kWindow{65'536};

void* MapZero(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

// Says yes to everything. The heap's memory itself is never touched.
class WillingKernel {
 public:
  HugePages window() const { return kWindow; }
  HugePages past_gibibyte() const { return HugePages(0); }
  MapResult Map(HugeRange) { return MapResult::kMapped; }
  bool Release(const NativeRange*, size_t) { return true; }
  void AdviseHuge(HugeRange) {}
  void AdviseNoHuge(HugeRange) {}
  bool SplitHugePage(HugePageId, NativeRange) { return true; }
  bool Collapse(HugeRange) { return true; }
  bool Populate(HugeRange) { return true; }
  uint64_t Touch(size_t) { return 0; }
  HugePages Move(HugeRange from, HugePageId) { return from.length; }
  bool IsLost(HugeRange) { return false; }
  bool CanCollapse() { return true; }
  bool Resident(HugePageId, unsigned char* bytes) {
    std::fill_n(bytes, kNativePerHugePage, 1);
    return true;
  }
  size_t NonZero(HugePageId, const unsigned char*, size_t most) { return most + 1; }
  bool FreesZeroPages() { return true; }
  size_t page_bytes() const { return 4096; }
  uint64_t NowNs() { return now_ns; }
  uint64_t CoarseNowNs() { return now_ns; }
  uint64_t StartOwnCpu() { return now_ns; }
  uint64_t OwnCpuSince(uint64_t start) { return now_ns - start; }
  int64_t Headroom() { return INT64_MAX; }

  uintptr_t base() const { return uintptr_t{1} << 45; }
  void* side_array(size_t i) { return side_[i]; }
  Lock& lock() { return lock_; }

  uint64_t now_ns = 1'000'000'000'000;

 private:
  void* side_[2] = {MapZero(PagesOf(kWindow).raw() * PageMap::kBytesAPage[0]),
                    MapZero(PagesOf(kWindow).raw() * PageMap::kBytesAPage[1])};
  Lock lock_{LockRank::kMetadata};
};
using Heap = StrataHeap<WillingKernel>;

// The longest hold of any lock of the heap but isolation_lock(), under which the kernel works.
struct Holds {
  static uint64_t Now() {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
  }
  static void Note(const Lock& lock, bool acquired) {
    if (!measuring) return;
    if (acquired) {
      since[depth++ % 32] = {&lock, Now()};
      ++count;
      return;
    }
    const auto end = since + depth;
    const auto at = std::find_if(since, end, [&](const auto& h) { return h.lock == &lock; });
    if (at == end) return;
    worst = std::max(worst, Now() - at->begin);
    std::copy(at + 1, end, at);
    --depth;
  }
  static void Start() {
    worst = count = depth = 0;
    measuring = true;
  }
  static uint64_t Stop() {
    measuring = false;
    return worst;
  }

  struct Hold {
    const Lock* lock;
    uint64_t begin;
  };
  static inline bool measuring = false;
  static inline uint64_t worst = 0, count = 0;
  static inline Hold since[32];
  static inline size_t depth = 0;
};

class LockHoldsTest : public testing::Test {
 protected:
  LockHoldsTest() {
    Lock::observer = Holds::Note;
    heap_ = std::make_unique<Heap>(kernel_, arena_, PageHeapOptions{},
                                   [](BadFree, void*) { ADD_FAILURE(); });
  }
  ~LockHoldsTest() override { Lock::observer = nullptr; }

  // Three tries: a real defect is there each time.
  template <class F>
  void ExpectShort(const char* what, F f) {
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 3 && best > kMost; ++i) {
      Holds::Start();
      f();
      best = std::min(best, Holds::Stop());
      ASSERT_GT(Holds::count, 0u);
    }
    RecordProperty(what, static_cast<int>(best / 1000));
    EXPECT_LE(best, kMost) << what << ": " << best / 1000 << " us";
  }

  void Fill(SizeClass c, size_t hugepages) {
    std::vector<void*>& all = live_[Raw(c)];
    const size_t n = hugepages * kPagesPerHugePage / InfoOf(c).pages * InfoOf(c).objects;
    const size_t had = all.size();
    all.resize(had + n);
    for (size_t got = 0; got < n;) {
      const size_t k = heap_->central().Take(c, &all[had + got], std::min(n - got, kMaxBatch));
      ASSERT_NE(k, 0u);
      got += k;
    }
  }
  // Leaves one object of `keep` in a row.
  void Thin(SizeClass c, size_t keep) {
    std::vector<void*> kept, dying;
    for (size_t i = 0; i < live_[Raw(c)].size(); ++i)
      (i % keep == 0 ? kept : dying).push_back(live_[Raw(c)][i]);
    for (size_t i = 0; i < dying.size(); i += kMaxBatch)
      heap_->central().Give(c, &dying[i], std::min(kMaxBatch, dying.size() - i));
    live_[Raw(c)] = std::move(kept);
  }
  void Tick() {
    kernel_.now_ns += 1'000'000'000;
    heap_->Tick(Giving::kOn);
  }

  static constexpr uint64_t kMost = 1'000'000;
  WillingKernel kernel_;
  MetadataArena arena_{MapZero};
  std::unique_ptr<Heap> heap_;
  std::vector<void*> live_[kMaxClasses];
};

TEST_F(LockHoldsTest, NoneOverAMillisecond) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(NDEBUG)
  GTEST_SKIP() << "times are of optimised code";
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "times are of optimised code";
#endif
#endif
  const SizeClass small = ClassOfSize(64), middle = ClassOfSize(16 << 10),
                  large = ClassOfSize(256 << 10);
  Fill(middle, 30'000);
  Fill(large, kHeap.raw() - 30'000 - 400);
  ExpectShort("growth", [&] { Fill(small, 100); });
  ExpectShort("statistics", [&] {
    EXPECT_GE(heap_->large().PageStats().used, BytesOf(kHeap) - (size_t{1} << 30));
    size_t seen = 0;
    heap_->large().VisitHugePages([&](HugePageId, size_t, size_t, char, uint32_t) { ++seen; });
    EXPECT_GE(seen, kHeap.raw() - 400);
  });
  // Every span has an idle part, every hugepage a free one.
  Thin(middle, 5);
  Thin(large, 3);
  Thin(small, 3);
  ExpectShort("a busy tick", [&] { Tick(); });
  ExpectShort("a trim of a little", [&] { heap_->ReleaseNow(64 << 20); });
  for (int i = 0; i < 2; ++i) Tick();
  ExpectShort("idle ticks", [&] {
    for (int i = 0; i < 3; ++i) Tick();
  });
  ExpectShort("a trim of everything", [&] { heap_->ReleaseNow(SIZE_MAX); });
  // Most hugepages are broken now; nearly full again, they are candidates for a rebuild.
  ExpectShort("refill", [&] { Fill(middle, 2'000); });
  ExpectShort("ticks after", [&] {
    for (int i = 0; i < 3; ++i) {
      Fill(small, 4);  // not idle
      Tick();
    }
  });
  ExpectShort("aligned blocks", [&] {
    for (int i = 0; i < 20; ++i) {
      const LargeBlock b = heap_->large().Take(3 << 20, 64 << 20);
      ASSERT_NE(b.address, nullptr);
      heap_->large().Give(heap_->large().At(b.address));
    }
  });
}

}  // namespace
}  // namespace strata::test
