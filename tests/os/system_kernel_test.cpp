// The real kernel behind the page heap: mappings that never replace another's, contents that are
// gone after a release, the page map's arrays in step with the heap, and errno kept.
#include "os/system_kernel.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "../hugepage/test_arena.h"
#include "os/confinement.h"
#include "os/metadata_memory.h"
#include "os/resident.h"
#include "os/thp_mode.h"

namespace strata {
namespace {

class SystemKernelTest : public testing::Test {
 protected:
  SystemKernelTest() {
    kernel_.Init(HugePages(1 << 16), HugePageAdvice::kWherePossible, memory_.arena(), {4, 8});
  }
  // The window lies at the same place for the whole process, so all of it is given back.
  ~SystemKernelTest() override {
    if (kernel_.mapped_end() == 0) return;
    munmap(reinterpret_cast<void*>(kernel_.base()), kernel_.mapped_end());
    for (size_t i = 0; i < SystemKernel::kSideArrays; ++i)
      munmap(kernel_.side_array(i), kernel_.side_array_bytes(i));
  }
  char* At(size_t offset) const { return reinterpret_cast<char*>(kernel_.base()) + offset; }

  test::TestArena memory_;
  SystemKernel kernel_;
};

TEST_F(SystemKernelTest, InitMapsNothingAndAlignsTheBase) {
  EXPECT_EQ(kernel_.base() % kHugePageSize, 0u);
  EXPECT_EQ((kernel_.base() - BytesOf(kernel_.past_gibibyte())) % (size_t{1} << 30), 0u);
  EXPECT_EQ(kernel_.window(), HugePages(1 << 16));
  EXPECT_EQ(kernel_.mapped_end(), 0u);
}

// Of Linux on x86-64.
TEST(SystemKernel, KnowsHowManyAddressesThereAre) { EXPECT_EQ(AddressLimit(), uintptr_t{1} << 47); }

// Page tables of three levels: everything at 16 TiB and above fails there.
TEST(SystemKernel, LiesWithinTheAddressesThatThereAre) {
  for (const int bits : {36, 39, 42}) {
    const uintptr_t limit = uintptr_t{1} << bits;
    test::TestArena memory;
    SystemKernel kernel;
    kernel.Init(HugePages(1 << 19), HugePageAdvice::kWherePossible, memory.arena(), {4, 8}, limit);
    EXPECT_EQ(BytesOf(kernel.window()), std::min(limit / 8, size_t{1} << 40));
    EXPECT_GE(kernel.base(), limit / 8);
    EXPECT_LE(kernel.base() + BytesOf(kernel.window()), limit / 8 * 5);
    const size_t pages = PagesOf(kernel.window()).raw();
    uintptr_t end = kernel.base();
    for (size_t i = 0; i < SystemKernel::kSideArrays; ++i) {
      const auto start = reinterpret_cast<uintptr_t>(kernel.side_array(i));
      EXPECT_GE(start, limit / 8);
      EXPECT_LE(start + pages * (i == 0 ? 4 : 8), limit / 8 * 5);
      EXPECT_TRUE(start >= end + BytesOf(kernel.window()) ||
                  start + pages * (i == 0 ? 4 : 8) <= end);
    }
  }
}

TEST_F(SystemKernelTest, MappedMemoryIsZeroAndWritable) {
  errno = 99;
  ASSERT_EQ(kernel_.Map({HugePageId(0), HugePages(2)}), MapResult::kMapped);
  EXPECT_EQ(errno, 99);
  EXPECT_GE(kernel_.mapped_end(), 2 * kHugePageSize);
  for (size_t at = 0; at < 2 * kHugePageSize; at += kNativePageSize) ASSERT_EQ(*At(at), 0);
  memset(At(0), 0x5a, 2 * kHugePageSize);
  // Each page's part of the side arrays can be read and written.
  for (size_t p = 0; p < 2 * kPagesPerHugePage; ++p) {
    EXPECT_EQ(static_cast<uint32_t*>(kernel_.side_array(0))[p], 0u);
    EXPECT_EQ(static_cast<void**>(kernel_.side_array(1))[p], nullptr);
    static_cast<uint32_t*>(kernel_.side_array(0))[p] = 1;
  }
}

TEST_F(SystemKernelTest, HugePagesMoveByPageTables) {
  ASSERT_EQ(kernel_.Map({HugePageId(0), HugePages(12)}), MapResult::kMapped);
  kernel_.AdviseHuge({HugePageId(0), HugePages(12)});
  memset(At(0), 0x5a, 3 * kHugePageSize);
  memset(At(4 * kHugePageSize), 0x11, 3 * kHugePageSize);
  errno = 96;
  ASSERT_EQ(kernel_.Move({HugePageId(0), HugePages(3)}, HugePageId(4)), HugePages(3));
  EXPECT_EQ(errno, 96);
  for (size_t at = 0; at < 3 * kHugePageSize; at += kNativePageSize) {
    ASSERT_EQ(*At(at), 0) << at;
    ASSERT_EQ(*At(4 * kHugePageSize + at), 0x5a) << at;
  }
  // On from there, with something behind it that lies in another mapping.
  memset(At(7 * kHugePageSize), 0x77, kHugePageSize);
  ASSERT_EQ(kernel_.Move({HugePageId(4), HugePages(4)}, HugePageId(8)), HugePages(4));
  EXPECT_EQ(*At(8 * kHugePageSize), 0x5a);
  EXPECT_EQ(*At(11 * kHugePageSize), 0x77);
  memset(At(0), 0x22, 12 * kHugePageSize);  // all of it is mapped as before
}

// The kernel would unlock all of the mapping that it leaves.
TEST_F(SystemKernelTest, NothingMovesWhileMemoryIsLocked) {
  ASSERT_EQ(kernel_.Map({HugePageId(0), HugePages(4)}), MapResult::kMapped);
  memset(At(0), 0x5a, kHugePageSize);
  // The sanitizers' mlock does nothing.
  if (syscall(SYS_mlock, At(kHugePageSize), kNativePageSize) != 0)
    GTEST_SKIP() << "mlock is refused";
  EXPECT_EQ(kernel_.Move({HugePageId(0), HugePages(1)}, HugePageId(2)), HugePages(0));
  EXPECT_EQ(*At(0), 0x5a);
  ASSERT_EQ(syscall(SYS_munlock, At(kHugePageSize), kNativePageSize), 0);
  EXPECT_EQ(kernel_.Move({HugePageId(0), HugePages(1)}, HugePageId(2)), HugePages(1));
}

// What was unmapped for the move could not be mapped again.
TEST_F(SystemKernelTest, NothingMovesUnderALimit) {
  ASSERT_EQ(kernel_.Map({HugePageId(0), HugePages(4)}), MapResult::kMapped);
  memset(At(0), 0x5a, kHugePageSize);
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit before;
    ASSERT_EQ(getrlimit(resource, &before), 0);
    const rlimit limited{size_t{1} << 50, before.rlim_max};
    ASSERT_EQ(setrlimit(resource, &limited), 0);
    EXPECT_EQ(kernel_.Move({HugePageId(0), HugePages(1)}, HugePageId(2)), HugePages(0));
    ASSERT_EQ(setrlimit(resource, &before), 0);
  }
  EXPECT_EQ(*At(0), 0x5a);
}

TEST_F(SystemKernelTest, ReleasedPagesReadAsZeroAndTheOthersStay) {
  ASSERT_EQ(kernel_.Map({HugePageId(0), HugePages(1)}), MapResult::kMapped);
  memset(At(0), 0x5a, kHugePageSize);
  const NativeRange ranges[] = {{kNativePageSize, kNativePageSize},
                                {8 * kNativePageSize, 4 * kNativePageSize}};
  errno = 98;
  ASSERT_TRUE(kernel_.Release(ranges, 2));
  EXPECT_EQ(errno, 98);
  for (size_t p = 0; p < kNativePerHugePage; ++p) {
    const bool gone = p == 1 || (p >= 8 && p < 12);
    ASSERT_EQ(*At(p * kNativePageSize), gone ? 0 : 0x5a) << p;
  }
}

TEST_F(SystemKernelTest, ManyRangesAreAllReleased) {
  ASSERT_EQ(kernel_.Map({HugePageId(0), HugePages(8)}), MapResult::kMapped);
  kernel_.AdviseNoHuge({HugePageId(0), HugePages(8)});
  memset(At(0), 0x5a, 8 * kHugePageSize);
  std::vector<NativeRange> ranges;
  for (size_t p = 0; p < 8 * kNativePerHugePage; p += 2)
    ranges.push_back({p * kNativePageSize, kNativePageSize});
  ASSERT_TRUE(kernel_.Release(ranges.data(), ranges.size()));
  EXPECT_EQ(ResidentBytes(kernel_.base(), 8 * kHugePageSize), 4 * kHugePageSize);
  for (size_t p = 0; p < 8 * kNativePerHugePage; ++p)
    ASSERT_EQ(*At(p * kNativePageSize), p % 2 == 0 ? 0 : 0x5a) << p;
}

TEST_F(SystemKernelTest, SomeoneElsesMappingIsLeftAlone) {
  ASSERT_EQ(kernel_.Map({HugePageId(0), HugePages(1)}), MapResult::kMapped);
  char* theirs = At(2 * kHugePageSize);
  ASSERT_EQ(mmap(theirs, kNativePageSize, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
            theirs);
  *theirs = 42;
  EXPECT_EQ(kernel_.Map({HugePageId(1), HugePages(4)}), MapResult::kOccupied);
  EXPECT_EQ(*theirs, 42);
  EXPECT_EQ(kernel_.Map({HugePageId(3), HugePages(1)}), MapResult::kMapped);
  memset(At(3 * kHugePageSize), 1, kHugePageSize);
  munmap(theirs, kNativePageSize);
}

TEST_F(SystemKernelTest, TheClockGoesForward) {
  const uint64_t a = kernel_.NowNs();
  EXPECT_GE(kernel_.NowNs(), a);
  EXPECT_GT(a, 0u);
}

TEST(SystemKernel, MetadataIsZeroAndMeasured) {
  const size_t before = ResidentMetadata();
  auto* p = static_cast<char*>(MapMetadata(1 << 20));
  ASSERT_NE(p, nullptr);
  for (size_t i = 0; i < 1 << 20; i += kNativePageSize) ASSERT_EQ(p[i], 0);
  memset(p, 1, 1 << 20);
  EXPECT_EQ(ResidentMetadata(), before + (1 << 20));
  EXPECT_EQ(MapMetadata(size_t{1} << 60), nullptr);
}

TEST(SystemKernel, NamesEveryThpMode) {
  for (const ThpMode mode :
       {ThpMode::kUnknown, ThpMode::kAlways, ThpMode::kMadvise, ThpMode::kNever}) {
    EXPECT_GT(strlen(NameOf(mode)), 0u);
  }
  EXPECT_STREQ(NameOf(ThpMode::kMadvise), "madvise");
}

// Both ways of asking agree, from any page on and for more than one read has room for.
TEST(ResidentPagesTest, ThePagemapSaysWhatMincoreSays) {
  constexpr size_t kPages = 300;
  void* p = mmap(nullptr, kPages * kNativePageSize, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(p, MAP_FAILED);
  madvise(p, kPages * kNativePageSize, MADV_NOHUGEPAGE);
  const auto start = reinterpret_cast<uintptr_t>(p);
  for (size_t i = 0; i < kPages; i += 1 + i % 7) static_cast<char*>(p)[i * kNativePageSize] = 1;
  const Confinement before = CurrentConfinement();
  TrustInheritedFilter();
  for (const size_t first : {size_t{0}, size_t{1}, size_t{130}}) {
    const uintptr_t from = start + first * kNativePageSize;
    const size_t n = kPages - first;
    std::vector<unsigned char> asked(n), read(n, 2);
    ASSERT_TRUE(ResidentPages(from, n, asked.data()));
    ASSERT_TRUE(PagesInPagemap(from, n, read.data()));
    for (size_t i = 0; i < n; ++i) EXPECT_EQ(asked[i] & 1, read[i]) << first << " " << i;
    EXPECT_NE(std::count(read.begin(), read.end(), 1), 0);
  }
  UndoOwnConfinement(before);
  munmap(p, kPages * kNativePageSize);
}

}  // namespace
}  // namespace strata
