// The room below the soft limit, by percent, by bytes and with none, over a tree of plain files.
#include "os/memory_watch.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace strata {
namespace {

struct MemoryWatchTest : testing::Test {
  MemoryWatchTest() {
    char name[] = "/tmp/strata-watch-XXXXXX";
    root = mkdtemp(name);
    self = root + "/self";
    statm = root + "/statm";
    Write("/self", "0::/\n");
    Write("/memory.max", "1000000\n");
    Write("/memory.current", "300000\n");
    Write("/cpu.max", "150000 100000\n");
    Write("/statm", "999 60 10 0 0 0 0\n");  // 50 pages of its own
    watch.SetRoot(root.c_str(), self.c_str(), statm.c_str());
  }
  ~MemoryWatchTest() override { std::filesystem::remove_all(root); }

  void Write(const std::string& path, const std::string& text) {
    std::ofstream(root + path) << text;
  }

  std::string root, self, statm;
  MemoryWatch watch;
};

TEST_F(MemoryWatchTest, NineTenthsOfTheCgroupUnlessToldOtherwise) {
  EXPECT_EQ(watch.Headroom(), 600'000);
  const MemoryState s = watch.state();
  EXPECT_EQ(s.cgroup_limit, 1'000'000u);
  EXPECT_EQ(s.cgroup_usage, 300'000u);
  EXPECT_EQ(s.soft_limit, 900'000u);
  EXPECT_EQ(s.cpu_quota, 1500u);
  watch.Set({SoftLimitSetting::Kind::kPercent, 50});
  EXPECT_EQ(watch.Headroom(), 200'000);
}

TEST_F(MemoryWatchTest, NegativeAboveIt) {
  Write("/memory.current", "950000\n");
  EXPECT_EQ(watch.Headroom(), -50'000);
}

TEST_F(MemoryWatchTest, BytesCountTheProcessAndKeepTheCgroupInView) {
  watch.Set({SoftLimitSetting::Kind::kBytes, 250'000});
  EXPECT_EQ(watch.Headroom(), 250'000 - 50 * 4096);
  EXPECT_EQ(watch.state().soft_limit, 250'000u);
  watch.Set({SoftLimitSetting::Kind::kBytes, size_t{1} << 30});
  EXPECT_EQ(watch.Headroom(), 600'000);
  EXPECT_EQ(watch.state().soft_limit, 900'000u);
  Write("/memory.max", "max\n");
  EXPECT_EQ(watch.Headroom(), (int64_t{1} << 30) - 50 * 4096);
}

TEST_F(MemoryWatchTest, OffIsOff) {
  watch.Set({SoftLimitSetting::Kind::kOff, 0});
  EXPECT_EQ(watch.Headroom(), MemoryWatch::kNoLimit);
  EXPECT_EQ(watch.state().soft_limit, 0u);
  watch.Set({SoftLimitSetting::Kind::kPercent, 90});
  EXPECT_EQ(watch.Headroom(), 600'000);
}

TEST_F(MemoryWatchTest, WithoutALimitItLooksOnlyWhenAsked) {
  Write("/memory.max", "max\n");
  for (int i = 0; i < 10; ++i) EXPECT_EQ(watch.Headroom(), MemoryWatch::kNoLimit);
  EXPECT_EQ(watch.state().looks, 1u);
  Write("/memory.max", "2000000\n");
  EXPECT_EQ(watch.Headroom(), MemoryWatch::kNoLimit);
  watch.Rediscover();
  EXPECT_EQ(watch.Headroom(), 1'500'000);
}

TEST_F(MemoryWatchTest, AMoveToAnotherCgroupIsSeen) {
  EXPECT_EQ(watch.Headroom(), 600'000);
  std::filesystem::create_directories(root + "/b");
  Write("/b/memory.max", "500000\n");
  Write("/b/memory.current", "0\n");
  Write("/self", "0::/b\n");
  EXPECT_EQ(watch.Headroom(), 600'000);
  watch.Rediscover();
  EXPECT_EQ(watch.Headroom(), 450'000);
}

TEST_F(MemoryWatchTest, FilesThatVanishAreNoLimit) {
  EXPECT_EQ(watch.Headroom(), 600'000);
  std::filesystem::remove_all(root);
  EXPECT_EQ(watch.Headroom(), MemoryWatch::kNoLimit);
}

TEST_F(MemoryWatchTest, PercentOfASmallLimit) {
  Write("/memory.max", "150\n");
  Write("/memory.current", "0\n");
  EXPECT_EQ(watch.Headroom(), 135);
  watch.Set({SoftLimitSetting::Kind::kPercent, 33});
  EXPECT_EQ(watch.Headroom(), 49);
}

// That there was no limit is forgotten with the setting it was found for.
TEST_F(MemoryWatchTest, ANewSettingIsLookedAtAtOnce) {
  Write("/memory.max", "max\n");
  EXPECT_EQ(watch.Headroom(), MemoryWatch::kNoLimit);
  watch.Set({SoftLimitSetting::Kind::kBytes, 250'000});
  EXPECT_EQ(watch.Headroom(), 250'000 - 50 * 4096);
  watch.Set({SoftLimitSetting::Kind::kPercent, 90});
  EXPECT_EQ(watch.Headroom(), MemoryWatch::kNoLimit);
  EXPECT_EQ(watch.state().soft_limit, 0u);  // not the one of before
}

}  // namespace
}  // namespace strata
