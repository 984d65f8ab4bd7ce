// No lock above the page heap's is held while the kernel is asked for something slow: a fake kernel
// tries them all at each such call. And what the arena promises the heap holds when the program
// changes the sizes it uses.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "../hugepage/test_arena.h"
#include "heaps/strata.h"
#include "test_kernel.h"

namespace strata::test {
namespace {

// Calls a hook in Map, Release and Headroom, and asks for metadata as the real kernel does.
class WatchedKernel : public TestKernel {
 public:
  WatchedKernel(HugePages window, MetadataArena& arena) : TestKernel(window), arena_(arena) {}

  MapResult Map(HugeRange r) {
    Call("map");
    if (!arena_.EnsureHeapTotal(MetadataFor(OffsetOf(r.end())))) return MapResult::kNoMemory;
    return TestKernel::Map(r);
  }
  bool Release(const NativeRange* list, size_t n) {
    Call("release");
    return TestKernel::Release(list, n);
  }
  int64_t Headroom() {
    Call("headroom");
    return TestKernel::Headroom();
  }

  std::function<void(const char*)> on_call;

 private:
  void Call(const char* what) {
    if (on_call) on_call(what);
  }
  MetadataArena& arena_;
};

using Heap = StrataHeap<WatchedKernel>;
thread_local size_t t_cpu = 0;

class LocksTest : public testing::Test {
 protected:
  LocksTest() {
    TierOptions tiers;
    tiers.cpu_number = [] { return t_cpu; };
    heap_ = std::make_unique<Heap>(
        kernel_, memory_.arena(), PageHeapOptions{}, [](BadFree, void*) { ADD_FAILURE(); }, tiers);
  }

  // From here on; for a test of one thread.
  void Watch() {
    kernel_.on_call = [this](const char* what) {
      ++calls_;
      size_t held = 0;
      bool above = true;  // those that come before the page heap's
      heap_->VisitLocks([&](Lock& lock) {
        above &= &lock != &heap_->page_heap().lock();
        if (above) held += lock.HeldByThisThread();
      });
      EXPECT_EQ(held, 0u) << what;
    };
  }

  std::vector<void*> TakeSmall(SizeClass c, size_t n) {
    std::vector<void*> out(n);
    for (size_t got = 0; got < n;) {
      const size_t k = heap_->central().Take(c, &out[got], std::min(n - got, kMaxBatch));
      if (k == 0) {
        out.resize(got);
        break;
      }
      got += k;
    }
    return out;
  }
  void GiveSmall(SizeClass c, const std::vector<void*>& all) {
    for (size_t i = 0; i < all.size(); i += kMaxBatch)
      heap_->central().Give(c, &all[i], std::min(kMaxBatch, all.size() - i));
  }

  TestArena memory_;
  WatchedKernel kernel_{HugePages(256), memory_.arena()};
  std::unique_ptr<Heap> heap_;
  size_t calls_ = 0;
};

TEST_F(LocksTest, ARefillOfPagesGivenBackLooksAtTheSoftLimitWithoutTheListsLock) {
  const SizeClass c = ClassOfSize(1024);
  std::vector<void*> all = TakeSmall(c, 100'000);
  for (void* p : all) kernel_.Touch(p, 1024, 1);
  std::sort(all.begin(), all.end());
  std::vector<void*> dying;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i % 32 >= 4) dying.push_back(all[i]);
  }
  GiveSmall(c, dying);
  ASSERT_GT(heap_->ReleaseNow(SIZE_MAX), size_t{40} << 20);
  kernel_.soft_limit = kernel_.physical_bytes() + (8 << 20);
  heap_->page_heap().CheckSoftLimit();
  const size_t looks = kernel_.looks;
  Watch();
  const std::vector<void*> again = TakeSmall(c, 40'000);
  EXPECT_GT(kernel_.looks, looks + 1);
  EXPECT_GT(calls_, 2u);
  EXPECT_EQ(again.size(), 40'000u);
}

TEST_F(LocksTest, BorrowingHugepagesHappensWithoutTheBorrowersLock) {
  t_cpu = 2;
  std::atomic<bool> stop{false};
  std::thread waiter([&] {
    t_cpu = 2;
    while (!stop) heap_->large().Give(heap_->large().At(heap_->large().Take(300'000, 16).address));
  });
  while (heap_->large().lent() == 0) {
    LockHolder hold(heap_->page_heap().lock());
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  stop = true;
  waiter.join();
  kernel_.soft_limit = kernel_.physical_bytes() + (40 << 20);
  heap_->page_heap().CheckSoftLimit();
  Watch();
  const size_t looks = kernel_.looks, maps = kernel_.map_calls;
  std::vector<void*> blocks;
  for (int i = 0; i < 200; ++i) {
    void* p = heap_->large().Take(900'000, 16).address;
    ASSERT_NE(p, nullptr);
    kernel_.Touch(p, 900'000, 1);
    blocks.push_back(p);
  }
  EXPECT_GT(heap_->large().lent(), 80u);
  EXPECT_GT(kernel_.looks, looks);
  EXPECT_GT(kernel_.map_calls, maps);
  heap_->ReleaseNow(SIZE_MAX);
  for (void* p : blocks) heap_->large().Give(heap_->large().At(p));
  heap_->ReleaseNow(SIZE_MAX);
  EXPECT_GT(calls_, 10u);
}

// The kernel gives address space to the heap until there is none left, neither for metadata. All of
// it can be used for any class then, one after the other.
TEST(HeapAtItsEnd, ServesEveryClassInTurn) {
  TestArena memory;
  WatchedKernel kernel{HugePages(16), memory.arena()};
  Heap heap(kernel, memory.arena(), PageHeapOptions{}, [](BadFree, void*) { ADD_FAILURE(); });
  const auto take_all = [&](SizeClass c) {
    std::vector<void*> out((size_t{32} << 20) / InfoOf(c).size + kMaxBatch);
    size_t got = 0;
    while (const size_t k =
               heap.central().Take(c, &out[got], std::min(out.size() - got, kMaxBatch)))
      got += k;
    out.resize(got);
    return out;
  };
  const auto give_all = [&](SizeClass c, const std::vector<void*>& all) {
    for (size_t i = 0; i < all.size(); i += kMaxBatch)
      heap.central().Give(c, &all[i], std::min(kMaxBatch, all.size() - i));
    heap.ReleaseNow(SIZE_MAX);
  };
  give_all(ClassOfSize(32768), take_all(ClassOfSize(32768)));  // the heap has its end now
  memory.fail = true;
  for (const size_t size : {1024, 128, 64, 48, 16, 8, 256, 8}) {
    const SizeClass c = ClassOfSize(size);
    const ClassInfo& info = InfoOf(c);
    const std::vector<void*> all = take_all(c);
    EXPECT_EQ(all.size(), 16 * kPagesPerHugePage / info.pages * info.objects) << size;
    give_all(c, all);
  }
}

}  // namespace
}  // namespace strata::test
