// The restartable sequences under forced migration, signals, concurrent drains and
// resizes: no object is
// lost and none has two owners. That this would be noticed is shown by
// rseq_control_stress_test.cpp.
#include "rseq_stress.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace strata::test {
namespace {

void Stress(RseqIndex index, uint32_t looks) {
  const RseqInfo info = RseqIndexedBy(index);
  if (info.index == RseqIndex::kNone) GTEST_SKIP() << "this kernel or glibc does not have it";
  // An emulated machine (tests/targets) gets more time, and still does little in it.
  const char* slow_ms = getenv("STRATA_STRESS_MS");
  const int ms = slow_ms != nullptr ? atoi(slow_ms) : 1700;
  const StressResult result = RseqStress(info, looks).Run(std::chrono::milliseconds(ms));
  EXPECT_EQ(result.violations, 0u);
  if (slow_ms != nullptr) {
    EXPECT_GT(result.moves, 500u);
    EXPECT_GT(result.signal_moves, 20u);
    return;
  }
  // It did happen: traffic, handlers in its midst, drains of full slabs.
  EXPECT_GT(result.moves, 50'000u);
  EXPECT_GT(result.hits, 10'000u);
  EXPECT_GT(result.signal_moves, 200u);
  EXPECT_GT(result.drains, 50u);
  EXPECT_GT(result.resizes, 200u);
}

// The sequences on slabs of their own, without the tiers.
class RseqOpsTest : public testing::Test {
 protected:
  void SetUp() override {
    const RseqInfo info = RseqIndexedBy(RseqIndex::kCpuId);
    if (info.index == RseqIndex::kNone) GTEST_SKIP() << "this kernel or glibc does not have it";
    void* const slabs = mmap(nullptr, cpus_ << kSlabShift, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(slabs, MAP_FAILED);
    ops_ = {{info.area_offset, info.index_offset, MarkOf(0x5eed)}, slabs, info};
    sched_getaffinity(0, sizeof(before_), &before_);
  }
  void TearDown() override {
    if (ops_.slabs == nullptr) return;
    sched_setaffinity(0, sizeof(before_), &before_);
    munmap(ops_.slabs, cpus_ << kSlabShift);
  }

  void Open(SizeClass c, size_t room) {
    for (size_t cpu = 0; cpu < cpus_; ++cpu) {
      Slab& slab = *reinterpret_cast<Slab*>(static_cast<char*>(ops_.slabs) + (cpu << kSlabShift));
      slab.Make(c);
      slab.Open(c, room);
    }
  }
  void StayOnOneCpu() {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  }
  // As free does it.
  PushResult Push(SizeClass c, void* object) {
    const auto at = reinterpret_cast<uintptr_t>(object);
    const PageEntry entry = EntryFor(c, at, at & ~(kPageSize - 1));
    PushResult result = PushResult::kPushed;
    RseqPush(ops_.where, ops_.slabs, &entry, 0, object, [&](PushResult why) { result = why; });
    return result;
  }

  const size_t cpus_ = PossibleCpus();
  RseqOps ops_;
  cpu_set_t before_;
};

// Of an object it knows the class only: those of large classes begin anywhere in their page.
TEST_F(RseqOpsTest, PushesAnObjectOfAnyClass) {
  alignas(kPageSize) static char page[kPageSize];
  for (size_t i = 1; i < kNumClasses; ++i) {
    const auto c = static_cast<SizeClass>(i);
    Open(c, 1);
    EXPECT_EQ(ops_.Push(c, page + LastFirst(InfoOf(c))), PushResult::kPushed) << InfoOf(c).size;
  }
}

TEST_F(RseqOpsTest, FindsWhatIsFreeWhereverItLies) {
  StayOnOneCpu();
  const SizeClass c = ClassOfSize(64);
  Open(c, 8);
  alignas(kPageSize) static char page[kPageSize];
  EXPECT_EQ(Push(c, page), PushResult::kPushed);
  EXPECT_EQ(Push(c, page + 64), PushResult::kPushed);
  EXPECT_EQ(Push(c, page), PushResult::kSuspect);
  EXPECT_EQ(Push(c, page + 64), PushResult::kSuspect);
  EXPECT_EQ(ops_.Pop(c), page + 64);
  EXPECT_EQ(Push(c, page + 64), PushResult::kPushed);
}

// What it does not look at it does not touch: reading and writing the object is what it spares.
TEST_F(RseqOpsTest, LookingSeldomItFindsTheNewestAndThoseOfSomePages) {
  StayOnOneCpu();
  ops_.SetLooks(MarkLooks::kSeldom);
  const SizeClass c = ClassOfSize(64);
  Open(c, 15);
  constexpr size_t kPages = 16;
  alignas(kPages * kPageSize) static char pages[2 * kPages * kPageSize];
  char* const other = pages + kPageSize;
  char* const looked = pages + kPages * kPageSize;
  EXPECT_EQ(Push(c, other), PushResult::kPushed);  // into an empty one: there is no newest
  EXPECT_EQ(Push(c, other), PushResult::kSuspect);
  EXPECT_FALSE(HasMark(other, ops_.where.mark));
  EXPECT_EQ(Push(c, looked), PushResult::kPushed);
  EXPECT_TRUE(HasMark(looked, ops_.where.mark));
  EXPECT_EQ(Push(c, other + 64), PushResult::kPushed);
  EXPECT_EQ(Push(c, looked), PushResult::kSuspect);
  EXPECT_EQ(ops_.Pop(c), other + 64);
  EXPECT_EQ(ops_.Pop(c), looked);
  EXPECT_FALSE(HasMark(looked, ops_.where.mark));
  EXPECT_EQ(ops_.Pop(c), other);
  EXPECT_EQ(ops_.Pop(c), nullptr);
}

// The copies take two and four at a time.
TEST_F(RseqOpsTest, BatchesOfAnyLengthComeAndGoWholeAndInOrder) {
  StayOnOneCpu();
  const SizeClass c = ClassOfSize(64);
  Open(c, Slab::kFirstSlots);
  void* in[Slab::kFirstSlots + 2];
  uint64_t objects[Slab::kFirstSlots + 2];
  for (size_t i = 0; i < Slab::kFirstSlots + 2; ++i) in[i] = &objects[i];
  for (size_t n = 0; n <= Slab::kFirstSlots; ++n) {
    void* out[Slab::kFirstSlots + 2] = {};
    ASSERT_EQ(ops_.PushBatch(c, in + 1, n), n);
    ASSERT_EQ(ops_.PopBatch(c, out + 1, n), n);
    for (size_t i = 0; i < Slab::kFirstSlots + 2; ++i)
      ASSERT_EQ(out[i], i == 0 || i > n ? nullptr : in[i]) << n << " " << i;
    ASSERT_EQ(ops_.Pop(c), nullptr) << n;
  }
  EXPECT_EQ(ops_.PushBatch(c, in, Slab::kFirstSlots + 2), Slab::kFirstSlots);
  EXPECT_EQ(ops_.Pop(c), in[Slab::kFirstSlots - 1]);
}

TEST(RseqStress, ByMmCid) { Stress(RseqIndex::kMmCid, MarkLooks::kEach); }
TEST(RseqStress, ByCpuId) { Stress(RseqIndex::kCpuId, MarkLooks::kEach); }
TEST(RseqStress, LookingSeldom) { Stress(RseqIndex::kCpuId, MarkLooks::kSeldom); }

}  // namespace
}  // namespace strata::test
