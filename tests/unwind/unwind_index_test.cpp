// The tables of a process whose files come and go: what is found for an address, what is kept and
// what is freed, hostile files, lack of memory; and walkers that look up while the index is
// replaced under them, which ThreadSanitizer watches.
#include "profile/unwind/unwind_index.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <memory>
#include <random>
#include <thread>

#include "fake_process.h"
#include "profile/unwind/any_code.h"

namespace strata::test {
namespace {

constexpr uintptr_t kBase = 0x7f0000000000;
constexpr uintptr_t kOther = 0x7f0000100000;
constexpr uintptr_t kCodeAt = kBase + kImageCode;

// From the kernel, since an UnwindTables never ends and so never gives all of it back. What is
// freed is overwritten first: ThreadSanitizer then sees a walker that still reads it.
std::atomic<long> g_mapped{0};  // without caches
std::atomic<size_t> g_caches{0};
constexpr size_t kCacheBytes = size_t{64} << 10;  // no table here is as large
std::atomic<long> g_maps_left{1L << 40};
void* MapForTest(size_t bytes) {
  if (g_maps_left.fetch_sub(1) <= 0) return nullptr;
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(p, MAP_FAILED);
  if (bytes == kCacheBytes) {
    g_caches.fetch_add(1);
  } else {
    g_mapped.fetch_add(static_cast<long>(bytes));
  }
  return p;
}
void UnmapForTest(void* p, size_t bytes) {
  memset(p, 0x5a, bytes);
  munmap(p, bytes);
  g_mapped.fetch_sub(static_cast<long>(bytes));
}

class UnwindIndexTest : public testing::Test {
 protected:
  void SetUp() override {
    g_mapped = 0;
    g_caches = 0;
    g_maps_left = 1L << 40;
  }
  bool Refresh(TablesFor which = TablesFor::kAllCode) {
    return tables_.Refresh(Reading(process_.Maps()), process_, which);
  }
  // All that is mapped, but of caches only the pages that were written.
  void ExpectAccounted() {
    const size_t caches = tables_.bytes() - static_cast<size_t>(g_mapped.load());
    EXPECT_EQ(caches % kNativePageSize, 0u);
    EXPECT_LE(caches, g_caches * kCacheBytes);
  }
  FoundRule Find(uintptr_t pc) {
    const UnwindTables::Pin pin(tables_);
    const FoundRule once = pin.index()->Find(pc);
    const FoundRule cached = pin.index()->Find(pc);
    EXPECT_EQ(once.rule, cached.rule);
    EXPECT_EQ(once.in_module, cached.in_module);
    return once;
  }
  UnwindRule Rsp(int64_t n) { return UnwindRule::Cfa(RuleKind::kFromSp, n); }

  FakeProcess process_;
  UnwindTables tables_{TableMemory{MapForTest, UnmapForTest}};
};

TEST_F(UnwindIndexTest, FindsRules) {
  EXPECT_EQ(UnwindTables::Pin(tables_).index(), nullptr);
  process_.Open(kBase, 20, 32, 7);
  process_.Open(kOther, 3, 48, 8);
  ASSERT_TRUE(Refresh());
  EXPECT_EQ(Find(kCodeAt).rule, Rsp(8));
  EXPECT_EQ(Find(kCodeAt + 1).rule, Rsp(32));
  EXPECT_EQ(Find(kCodeAt + 63).rule, Rsp(32));
  EXPECT_EQ(Find(kCodeAt + 64).rule, Rsp(8));
  EXPECT_EQ(Find(kCodeAt + 20 * 64 - 1).rule, Rsp(32));
  EXPECT_FALSE(Find(kCodeAt + 20 * 64).in_module);
  EXPECT_FALSE(Find(kCodeAt - 1).in_module);
  EXPECT_EQ(Find(kOther + kImageCode + 5).rule, Rsp(48));
  EXPECT_FALSE(Find(0x1234567).in_module);
  EXPECT_FALSE(Find(UINTPTR_MAX).in_module);
  EXPECT_FALSE(Find(uintptr_t{1} << 47).in_module);
  EXPECT_EQ(Find(0).rule.kind(), RuleKind::kNone);
}

// Addresses that meet in the cache must not be taken for each other.
TEST_F(UnwindIndexTest, TheCacheTellsAddressesApart) {
  process_.Open(kBase, 50, 32, 7);
  for (uintptr_t k = 1; k <= 60; ++k)
    process_.Open(kBase + (k << 20), 50, 32 + 8 * static_cast<int64_t>(k % 4), k + 7);
  ASSERT_TRUE(Refresh());
  std::mt19937_64 random(3);
  for (int i = 0; i < 60'000; ++i) {
    const uintptr_t k = random() % 61;
    const uintptr_t offset = random() % (50 * 64);
    const UnwindRule expected =
        Rsp(offset % 64 == 0 ? 8 : (k == 0 ? 32 : 32 + 8 * static_cast<int64_t>(k % 4)));
    ASSERT_EQ(Find(kCodeAt + (k << 20) + offset).rule, expected);
  }
}

TEST_F(UnwindIndexTest, LargeCodeHasManyPages) {
  // Few functions far apart: most pages hold no row but the one they take over.
  FrameBytes frames(kBase + kImageFrames);
  const uint32_t common = frames.Common();
  constexpr size_t kSize = 40 << 20;
  frames.Frame(common, kCodeAt + 100, 5 << 20, {0x04, 0, 0, 0x20, 0, 0x0e, 16});
  frames.Frame(common, kCodeAt + (20 << 20), 200, {});
  frames.End();
  size_t entries;
  UnwindTable* table = UnwindTable::Make(frames.section(), kCodeAt, kCodeAt + kSize,
                                         {MapForTest, UnmapForTest}, &entries);
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(entries, 2u);
  EXPECT_EQ(table->Find(0), UnwindRule());
  EXPECT_EQ(table->Find(99), UnwindRule());
  EXPECT_EQ(table->Find(100), Rsp(8));
  EXPECT_EQ(table->Find(100 + (2 << 20) - 1), Rsp(8));
  EXPECT_EQ(table->Find(100 + (2 << 20)), Rsp(16));
  EXPECT_EQ(table->Find(100 + (5 << 20) - 1), Rsp(16));
  EXPECT_EQ(table->Find(100 + (5 << 20)), UnwindRule());
  EXPECT_EQ(table->Find(20 << 20), Rsp(8));
  EXPECT_EQ(table->Find((20 << 20) + 200), UnwindRule());
  EXPECT_EQ(table->Find(kSize - 1), UnwindRule());
  UnwindTable::Delete(table, {MapForTest, UnmapForTest});
}

// A thread closes a file, or puts another in its place, between the look at the headers and the
// copy of the frames. When the file is back, its own rules count.
TEST_F(UnwindIndexTest, FilesThatGoWhileTheirFramesAreCopied) {
  for (const bool replaced : {false, true}) {
    process_.Open(kBase, 20, 32, 7);
    process_.Before(kBase + kImageFrames, [&] {
      process_.Close(kBase);
      if (replaced) process_.Open(kBase, 20, 48, 8);
    });
    const std::string maps = process_.Maps();
    ASSERT_TRUE(tables_.Refresh(Reading(maps), process_));
    EXPECT_FALSE(Find(kCodeAt + 1).in_module) << replaced;
    process_.Open(kBase, 20, 32, 7);
    ASSERT_TRUE(Refresh());
    EXPECT_EQ(Find(kCodeAt + 1).rule, Rsp(32)) << replaced;
    process_.Close(kBase);
    ASSERT_TRUE(Refresh());
  }
}

TEST_F(UnwindIndexTest, FilesThatAreGoneForAMoment) {
  process_.Open(kBase, 20, 32, 7);
  const std::string maps = process_.Maps();
  process_.Before(kBase + kImageFrames - 16, [&] {
    process_.Close(kBase);
    process_.Before(kBase, [&] { process_.Open(kBase, 20, 32, 7); });
  });
  ASSERT_TRUE(tables_.Refresh(Reading(maps), process_));
  EXPECT_EQ(Find(kCodeAt + 1).rule, Rsp(32));
}

TEST_F(UnwindIndexTest, OverlappingEntriesAreLeftOut) {
  FrameBytes frames(kBase + kImageFrames);
  const uint32_t common = frames.Common();
  frames.Frame(common, kCodeAt + 50, 100, {0x0e, 24});
  frames.Frame(common, kCodeAt, 100, {0x0e, 16});
  frames.Frame(common, kCodeAt + 200, 0, {});
  frames.Frame(common, kBase, 100, {});
  size_t entries;
  UnwindTable* table = UnwindTable::Make(frames.section(), kCodeAt, kCodeAt + 4096,
                                         {MapForTest, UnmapForTest}, &entries);
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(entries, 1u);
  EXPECT_EQ(table->Find(99), Rsp(16));
  EXPECT_EQ(table->Find(100), UnwindRule());
  UnwindTable::Delete(table, {MapForTest, UnmapForTest});
}

// The rest of a cache takes no memory, and the statistics add up to what the process has resident.
TEST_F(UnwindIndexTest, OnlyTheUsedPagesOfTheCacheCount) {
  process_.Open(kBase, 64, 32, 7);  // one page of code
  ASSERT_TRUE(Refresh());
  const auto mapped = static_cast<size_t>(g_mapped.load());
  EXPECT_EQ(g_caches, 1u);
  EXPECT_EQ(tables_.bytes(), mapped);
  Find(kCodeAt + 70);
  EXPECT_EQ(tables_.bytes(), mapped + kNativePageSize);
  Find(kCodeAt + 71);
  EXPECT_EQ(tables_.bytes(), mapped + kNativePageSize);
  for (uintptr_t i = 0; i < 64 * 64; ++i) Find(kCodeAt + i);  // 4096 slots in a row: 8 or 9 pages
  EXPECT_GE(tables_.bytes(), mapped + 8 * kNativePageSize);
  EXPECT_LE(tables_.bytes(), mapped + 9 * kNativePageSize);
}

TEST_F(UnwindIndexTest, AnUnchangedProcessChangesNothing) {
  process_.Open(kBase, 20, 32, 7);
  ASSERT_TRUE(Refresh());
  ASSERT_TRUE(Refresh());
  EXPECT_EQ(tables_.published(), 1u);
}

TEST_F(UnwindIndexTest, AnotherFileAtTheSamePlaceGetsItsOwnTable) {
  process_.Open(kBase, 20, 32, 7);
  ASSERT_TRUE(Refresh());
  EXPECT_EQ(Find(kCodeAt + 70).rule, Rsp(32));
  process_.Close(kBase);
  process_.Open(kBase, 20, 96, 9);
  ASSERT_TRUE(Refresh());
  EXPECT_EQ(Find(kCodeAt + 70).rule, Rsp(96));
  process_.Close(kBase);
  process_.Open(kBase, 20, 40, 9);  // the same inode, other contents
  ASSERT_TRUE(Refresh());
  EXPECT_EQ(Find(kCodeAt + 70).rule, Rsp(40));
  process_.Close(kBase);
  ASSERT_TRUE(Refresh());
  EXPECT_FALSE(Find(kCodeAt + 70).in_module);
}

TEST_F(UnwindIndexTest, CodeThatWalksMeetGetsATable) {
  const auto meet = [this](uintptr_t pc, uint32_t times) {
    const UnwindTables::Pin pin(tables_);
    for (uint32_t i = 0; i < times; ++i) {
      const FoundRule found = pin.index()->Find(pc);
      EXPECT_TRUE(found.table_missing);
      EXPECT_FALSE(found.in_module);
      EXPECT_EQ(found.rule, UnwindRule());
      EXPECT_EQ(AnyCode(pin.index()).Find(pc).rule, UnwindRule());  // no linker knows it
    }
  };
  process_.Open(kBase, 20, 32, 7);
  process_.Open(kOther, 30, 48, 8);
  ASSERT_TRUE(Refresh(TablesFor::kCodeMet));
  const size_t without = tables_.bytes();
  meet(kCodeAt + 70, UnwindIndex::kMeetings - 1);
  EXPECT_FALSE(tables_.wants_table());
  // Meetings outlast a refresh for other reasons.
  process_.Open(kOther + 0x200000, 3, 64, 9);
  ASSERT_TRUE(Refresh(TablesFor::kCodeMet));
  EXPECT_EQ(tables_.published(), 2u);
  EXPECT_TRUE(Refresh(TablesFor::kCodeMet));
  EXPECT_EQ(tables_.published(), 2u);
  meet(kCodeAt + 130, 1);
  EXPECT_TRUE(tables_.wants_table());
  ASSERT_TRUE(Refresh(TablesFor::kCodeMet));
  EXPECT_FALSE(tables_.wants_table());
  EXPECT_EQ(Find(kCodeAt + 70).rule, Rsp(32));
  EXPECT_FALSE(Find(kCodeAt + 70).table_missing);
  const size_t with_one = tables_.bytes();
  EXPECT_GT(with_one, without);
  meet(kOther + kImageCode + 70, 3);
  ASSERT_TRUE(Refresh());
  EXPECT_EQ(Find(kOther + kImageCode + 70).rule, Rsp(48));
  EXPECT_GT(tables_.bytes(), with_one);
  ExpectAccounted();
}

// Files call each other back and forth; each counts the walk, and counts it once.
TEST_F(UnwindIndexTest, AWalkMeetsEachOfItsFilesOnce) {
  process_.Open(kBase, 20, 32, 7);
  process_.Open(kOther, 30, 48, 8);
  ASSERT_TRUE(Refresh(TablesFor::kCodeMet));
  const auto walk = [this] {
    const UnwindTables::Pin pin(tables_);
    const AnyCode rules(pin.index());
    for (uintptr_t i = 0; i < 20; ++i) {
      rules.Find(kCodeAt + i * 64 + 6);
      rules.Find(kOther + kImageCode + i * 64 + 6);
    }
    EXPECT_FALSE(rules.met_new_file());
  };
  for (uint32_t i = 1; i < UnwindIndex::kMeetings; ++i) walk();
  EXPECT_FALSE(tables_.wants_table());
  walk();
  EXPECT_TRUE(tables_.wants_table());
  ASSERT_TRUE(Refresh(TablesFor::kCodeMet));
  EXPECT_EQ(Find(kCodeAt + 70).rule, Rsp(32));
  EXPECT_EQ(Find(kOther + kImageCode + 70).rule, Rsp(48));
}

TEST_F(UnwindIndexTest, AFileLoadedSinceIsNew) {
  process_.Open(kBase, 20, 32, 7);
  ASSERT_TRUE(Refresh());
  const UnwindTables::Pin pin(tables_);
  const AnyCode rules(pin.index());
  EXPECT_EQ(rules.Find(kCodeAt + 70).rule, Rsp(32));
  EXPECT_EQ(rules.Find(1).rule, UnwindRule());
  EXPECT_FALSE(rules.met_new_file());
  const auto here = reinterpret_cast<uintptr_t>(&FindFrameIndex);
  EXPECT_EQ(rules.Find(here).rule, LoadedCode().Find(here).rule);
  EXPECT_EQ(rules.met_new_file(), CanFindLoadedCode());
}

TEST_F(UnwindIndexTest, AnotherFileWithoutATableIsMetAnew) {
  process_.Open(kBase, 20, 32, 7);
  ASSERT_TRUE(Refresh(TablesFor::kCodeMet));
  for (uint32_t i = 0; i < UnwindIndex::kMeetings; ++i) {
    const UnwindTables::Pin pin(tables_);
    EXPECT_FALSE(AnyCode(pin.index()).Find(kCodeAt + 70).in_module);
  }
  EXPECT_TRUE(tables_.wants_table());
  process_.Close(kBase);
  process_.Open(kBase, 20, 96, 9);
  ASSERT_TRUE(Refresh(TablesFor::kCodeMet));
  EXPECT_EQ(tables_.published(), 2u);
  EXPECT_FALSE(tables_.wants_table());
  EXPECT_TRUE(Find(kCodeAt + 70).table_missing);
}

TEST_F(UnwindIndexTest, ReplacedTablesAreFreedOnceUnpinned) {
  process_.Open(kOther, 20, 32, 5);
  process_.Open(kBase, 20, 32, 7);
  ASSERT_TRUE(Refresh());
  ExpectAccounted();
  const UnwindIndex* held;
  {
    const UnwindTables::Pin pin(tables_);
    held = pin.index();
    process_.Close(kBase);
    ASSERT_TRUE(Refresh());
    ASSERT_TRUE(Refresh());
    EXPECT_EQ(held->Find(kCodeAt + 70).rule, Rsp(32));
    EXPECT_FALSE(Find(kCodeAt + 70).in_module);
  }
  const size_t before = tables_.bytes();
  ASSERT_TRUE(Refresh());
  EXPECT_LT(tables_.bytes(), before);
  ExpectAccounted();
  EXPECT_EQ(Find(kOther + kImageCode + 70).rule, Rsp(32));  // its table was shared, and stays
}

TEST_F(UnwindIndexTest, WalkersThatNeverEndBoundWhatIsKept) {
  process_.Open(kBase, 20, 32, 7);
  ASSERT_TRUE(Refresh());
  std::vector<std::unique_ptr<UnwindTables::Pin>> stuck;
  size_t refreshed = 0;
  for (int64_t frame = 40; refreshed < 100; frame = frame == 40 ? 48 : 40, ++refreshed) {
    stuck.push_back(std::make_unique<UnwindTables::Pin>(tables_));
    process_.Open(kBase, 20, frame, 7);
    if (!Refresh()) break;
  }
  EXPECT_GE(refreshed, 3u);
  EXPECT_LT(refreshed, 10u);
  ExpectAccounted();
  EXPECT_NE(Find(kCodeAt + 70).rule, UnwindRule());
  stuck.clear();
  ASSERT_TRUE(Refresh());
}

TEST_F(UnwindIndexTest, AChildForgetsTheWalkersOfItsParent) {
  process_.Open(kBase, 20, 32, 7);
  ASSERT_TRUE(Refresh());
  // Pins whose threads a fork left behind: their destructors never run.
  alignas(UnwindTables::Pin) unsigned char others[3][sizeof(UnwindTables::Pin)];
  int64_t next = 40;
  for (auto& other : others) {
    new (other) UnwindTables::Pin(tables_);
    process_.Open(kBase, 20, next += 8, 7);
    ASSERT_TRUE(Refresh());
  }
  tables_.ForgetOthersInChild();
  for (int64_t frame = 40; frame < 240; frame += 8) {
    process_.Open(kBase, 20, frame % 120 + 8, 7);
    ASSERT_TRUE(Refresh());
  }
}

TEST_F(UnwindIndexTest, EachFailureOfMemoryIsSaidAndLeaksNothing) {
  process_.Open(kBase, 20, 32, 7);
  ASSERT_TRUE(Refresh());
  process_.Open(kOther, 30, 48, 8);
  for (long allowed = 0;; ++allowed) {
    g_maps_left = allowed;
    const bool ok = Refresh();
    g_maps_left = 1L << 40;
    ExpectAccounted();
    EXPECT_EQ(Find(kCodeAt + 70).rule, Rsp(32));
    EXPECT_EQ(Find(kOther + kImageCode + 70).in_module, ok);
    if (ok) {
      EXPECT_GE(allowed, 3);  // a table, a list, a cache
      break;
    }
  }
}

TEST_F(UnwindIndexTest, HostileFiles) {
  std::mt19937 random(11);
  for (int round = 0; round < 600; ++round) {
    process_.Open(kBase, 20, 32, 7 + static_cast<uint64_t>(round));
    Bytes& image = process_.image(kBase);
    for (int i = 0; i < 6; ++i) {
      const size_t at = round % 2 == 0 ? random() % 300 : random() % image.size();
      image[at] = static_cast<uint8_t>(random());
    }
    if (round % 7 == 0) image.resize(random() % image.size());
    ASSERT_TRUE(Refresh());
    for (uintptr_t pc = kCodeAt; pc < kCodeAt + 20 * 64; pc += 37) Find(pc);
  }
  ExpectAccounted();
}

TEST_F(UnwindIndexTest, HostileMaps) {
  process_.Open(kBase, 20, 32, 7);
  const std::string good = process_.Maps();
  for (size_t n = 0; n < good.size(); ++n)
    ASSERT_TRUE(tables_.Refresh(Reading(good.substr(0, n)), process_));
  ASSERT_TRUE(tables_.Refresh(Reading(good + good), process_));
  EXPECT_EQ(Find(kCodeAt + 70).rule, Rsp(32));
}

// A thread that was slow between reading the maps and making tables of them must not take back what
// another made of a newer text.
TEST_F(UnwindIndexTest, AnOldTextDoesNotReplaceANewOne) {
  process_.Open(kBase, 20, 32, 7);
  const std::string before = process_.Maps();
  process_.Open(kOther, 20, 48, 8);
  std::thread newer;
  const auto slow = [&](ScratchArray<char>& maps) {
    newer = std::thread([&] { ASSERT_TRUE(Refresh()); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return Reading(before)(maps);
  };
  ASSERT_TRUE(tables_.Refresh(slow, process_));
  newer.join();
  EXPECT_EQ(Find(kOther + kImageCode + 5).rule, Rsp(48));
}

// Two states of the process take turns. Whatever index a walker has pinned, it finds that state's
// rules for all addresses, and nothing it reads has been freed.
TEST_F(UnwindIndexTest, WalkersWhileTheIndexIsReplaced) {
  process_.Open(kBase, 20, 32, 7);
  ASSERT_TRUE(Refresh());
  std::atomic<bool> stop{false};
  std::atomic<long> looked{0};
  std::vector<std::thread> walkers;
  walkers.reserve(3);
  for (int t = 0; t < 3; ++t) {
    walkers.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      while (!stop) {
        const UnwindTables::Pin pin(tables_);
        const UnwindRule first = pin.index()->Find(kCodeAt + 1).rule;
        EXPECT_TRUE(first == Rsp(32) || first == Rsp(96));
        for (int i = 0; i < 20; ++i) {
          const uintptr_t offset = random() % (20 * 64);
          EXPECT_EQ(pin.index()->Find(kCodeAt + offset).rule, offset % 64 == 0 ? Rsp(8) : first);
        }
        looked.fetch_add(1);
      }
    });
  }
  for (int round = 0; round < 400 || looked < 500; ++round) {
    process_.Close(kBase);
    process_.Open(kBase, 20, round % 2 == 0 ? 96 : 32, 7);
    Refresh();  // may find all old ones pinned
  }
  stop = true;
  for (std::thread& walker : walkers) walker.join();
  ASSERT_TRUE(Refresh());
  EXPECT_GT(tables_.published(), 100u);
  ExpectAccounted();
}

}  // namespace
}  // namespace strata::test
