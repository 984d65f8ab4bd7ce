// The cgroup files of both versions, in a container or out, present or not: over a tree of plain
// files.
#include "os/cgroup.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace strata {
namespace {

struct CgroupTest : testing::Test {
  CgroupTest() {
    char name[] = "/tmp/strata-cgroup-XXXXXX";
    root = mkdtemp(name);
  }
  ~CgroupTest() override { std::filesystem::remove_all(root); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = root + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  CgroupMemory Found() {
    CgroupWatch watch;
    watch.Find(root.c_str(), (root + "/self").c_str());
    return watch.Read();
  }

  std::string root;
};

TEST_F(CgroupTest, VersionTwo) {
  Write("/self", "0::/a/b\n");
  Write("/a/b/memory.max", "1048576\n");
  Write("/a/b/memory.current", "4096\n");
  EXPECT_EQ(Found().limit, 1048576u);
  EXPECT_EQ(Found().usage, 4096u);
}

TEST_F(CgroupTest, VersionTwoWithoutALimit) {
  Write("/self", "0::/\n");
  Write("/memory.max", "max\n");
  Write("/memory.current", "4096\n");
  EXPECT_EQ(Found().limit, 0u);
}

TEST_F(CgroupTest, VersionOneBesideAnEmptyVersionTwo) {
  Write("/self", "5:cpu,cpuacct:/x\n4:memory:/x\n0::/x\n");
  Write("/memory/x/memory.limit_in_bytes", "2097152\n");
  Write("/memory/x/memory.usage_in_bytes", "8192\n");
  EXPECT_EQ(Found().limit, 2097152u);
  EXPECT_EQ(Found().usage, 8192u);
}

TEST_F(CgroupTest, VersionOneWithoutALimit) {
  Write("/self", "4:memory:/\n");
  Write("/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write("/memory/memory.usage_in_bytes", "8192\n");
  EXPECT_EQ(Found().limit, 0u);
}

TEST_F(CgroupTest, APathOfTheHostFallsBackToTheMount) {
  Write("/self", "0::/docker/1234\n");
  Write("/memory.max", "1048576\n");
  Write("/memory.current", "4096\n");
  EXPECT_EQ(Found().limit, 1048576u);
}

TEST_F(CgroupTest, CacheThatWouldBeDroppedIsNoUsage) {
  Write("/self", "0::/\n");
  Write("/memory.max", "1048576\n");
  Write("/memory.current", "900000\n");
  Write("/memory.stat",
        "anon 1\nfile 700000\ninactive_file 600000\nactive_file 100000\nslab_reclaimable 100000\n");
  EXPECT_EQ(Found().usage, 200000u);
  EXPECT_EQ(Found().hot_cache, 100000u);
  Write("/self", "4:memory:/\n");
  Write("/memory/memory.limit_in_bytes", "1048576\n");
  Write("/memory/memory.usage_in_bytes", "900000\n");
  Write("/memory/memory.stat",
        "inactive_file 5\ntotal_inactive_file 600000\ntotal_active_file 70000\n");
  EXPECT_EQ(Found().usage, 300000u);
  EXPECT_EQ(Found().hot_cache, 70000u);
}

TEST_F(CgroupTest, NothingThereIsNoLimit) {
  EXPECT_EQ(Found().limit, 0u);
  Write("/self", "nonsense\n:\n::\n0::/gone\n");
  EXPECT_EQ(Found().limit, 0u);
  Write("/self", std::string(10000, 'x'));
  EXPECT_EQ(Found().limit, 0u);
}

TEST_F(CgroupTest, NonsenseInTheFilesIsNoLimit) {
  Write("/self", "0::/\n");
  Write("/memory.max", "99999999999999999999999999\n");
  Write("/memory.current", "4096\n");
  EXPECT_EQ(Found().limit, 0u);
}

TEST_F(CgroupTest, TheAncestorWithTheLeastRoomBinds) {
  Write("/self", "0::/a/b/c\n");
  Write("/a/memory.max", "1000000\n");
  Write("/a/memory.current", "900000\n");
  Write("/a/b/memory.max", "500000\n");
  Write("/a/b/memory.current", "100000\n");
  Write("/a/b/c/memory.max", "max\n");
  Write("/a/b/c/memory.current", "50000\n");
  EXPECT_EQ(Found().limit, 1000000u);  // 100,000 left there, 400,000 in b
  EXPECT_EQ(Found().usage, 900000u);
  Write("/a/memory.current", "200000\n");
  EXPECT_EQ(Found().limit, 500000u);
  Write("/self", "4:memory:/a/b\n");
  Write("/memory/a/memory.limit_in_bytes", "300000\n");
  Write("/memory/a/memory.usage_in_bytes", "8192\n");
  Write("/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
  Write("/memory/a/b/memory.usage_in_bytes", "4096\n");
  EXPECT_EQ(Found().limit, 300000u);
  EXPECT_EQ(Found().usage, 8192u);
}

TEST_F(CgroupTest, MemoryHighIsALimitToo) {
  Write("/self", "0::/a\n");
  Write("/a/memory.current", "4096\n");
  Write("/a/memory.max", "max\n");
  Write("/a/memory.high", "1048576\n");
  EXPECT_EQ(Found().limit, 1048576u);
  Write("/a/memory.max", "65536\n");
  EXPECT_EQ(Found().limit, 65536u);
  Write("/a/memory.max", "2097152\n");
  EXPECT_EQ(Found().limit, 1048576u);
}

TEST_F(CgroupTest, ALeafWithoutTheControllerIsItsParents) {
  Write("/self", "0::/a/leaf\n");
  std::filesystem::create_directories(root + "/a/leaf");
  Write("/a/memory.max", "1048576\n");
  Write("/a/memory.current", "4096\n");
  EXPECT_EQ(Found().limit, 1048576u);
}

TEST_F(CgroupTest, VersionTwoBesideVersionOne) {
  Write("/self", "1:cpu:/\n0::/a\n");
  Write("/unified/a/memory.max", "1048576\n");
  Write("/unified/a/memory.current", "4096\n");
  EXPECT_EQ(Found().limit, 1048576u);
}

TEST_F(CgroupTest, ALimitChangedWhileRunningIsSeen) {
  Write("/self", "0::/\n");
  Write("/memory.max", "1048576\n");
  Write("/memory.current", "4096\n");
  CgroupWatch watch;
  watch.Find(root.c_str(), (root + "/self").c_str());
  EXPECT_EQ(watch.Read().limit, 1048576u);
  Write("/memory.max", "524288\n");
  EXPECT_EQ(watch.Read().limit, 524288u);
  std::filesystem::remove(root + "/memory.max");
  EXPECT_EQ(watch.Read().limit, 0u);
}

TEST_F(CgroupTest, APathTooLongIsNoLimit) {
  Write("/self", "0::/" + std::string(700, 'a') + "\n");
  EXPECT_EQ(Found().limit, 0u);
}

TEST_F(CgroupTest, CpuQuota) {
  const auto quota = [this] {
    CgroupWatch watch;
    watch.Find(root.c_str(), (root + "/self").c_str());
    return watch.ReadCpuQuota();
  };
  Write("/self", "0::/a/b\n");
  EXPECT_EQ(quota(), 0u);
  Write("/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), 0u);
  Write("/a/b/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota(), 1500u);
  Write("/a/cpu.max", "50000 100000\n");
  EXPECT_EQ(quota(), 500u);
  for (const char* nonsense : {"", "x", "100000", "100000 ", "100000 0", "-5 3", " 7"}) {
    Write("/a/cpu.max", nonsense);
    EXPECT_EQ(quota(), 1500u) << nonsense;
  }
  Write("/self", "2:cpu,cpuacct:/x\n0::/\n");
  Write("/cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n");
  Write("/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 0u);
  Write("/cpu,cpuacct/x/cpu.cfs_quota_us", "250000\n");
  EXPECT_EQ(quota(), 2500u);
}

TEST_F(CgroupTest, OwnMemoryIsWhatIsNotShared) {
  Write("/statm", "5000 300 100 1 0 200 0\n");
  EXPECT_EQ(OwnResidentBytes((root + "/statm").c_str()), 200u * 4096);
  for (const char* nonsense : {"", "5000", "5000 300", "5000 100 300"}) {
    Write("/statm", nonsense);
    EXPECT_EQ(OwnResidentBytes((root + "/statm").c_str()), 0u) << nonsense;
  }
  EXPECT_GT(OwnResidentBytes("/proc/self/statm"), 0u);
}

// "1" with 64 binary zeros behind it in mind: digits that wrap come out small.
TEST_F(CgroupTest, NumbersThatWrapAreNone) {
  Write("/self", "0::/\n");
  Write("/memory.current", "4096\n");
  Write("/memory.max", "18446744073709555712\n");  // 2^64 + 4096
  EXPECT_EQ(Found().limit, 0u);
}

TEST_F(CgroupTest, MoreCacheThanUsageIsNoUsage) {
  Write("/self", "0::/\n");
  Write("/memory.max", "1048576\n");
  Write("/memory.current", "4096\n");
  Write("/memory.stat", "anon 1\ninactive_file 8192\nactive_file 8192\n");
  EXPECT_EQ(Found().usage, 0u);
  EXPECT_EQ(Found().hot_cache, 0u);
}

// A cgroup over its limit (one that was lowered) has no room, and the least there can be.
TEST_F(CgroupTest, ALevelOverItsLimitBinds) {
  Write("/self", "0::/a/b\n");
  Write("/a/memory.max", "500000\n");
  Write("/a/memory.current", "900000\n");
  for (const char* below : {"1000", "600000"}) {
    Write("/a/b/memory.max", "700000\n");
    Write("/a/b/memory.current", below);
    EXPECT_EQ(Found().limit, 500000u);
    EXPECT_EQ(Found().usage, 900000u);
  }
}

TEST_F(CgroupTest, OfEqualRoomTheSmallerLimitBinds) {
  Write("/self", "0::/a/b\n");
  for (const bool outer_is_smaller : {false, true}) {
    Write("/a/memory.max", outer_is_smaller ? "300000\n" : "500000\n");
    Write("/a/memory.current", outer_is_smaller ? "100000\n" : "300000\n");
    Write("/a/b/memory.max", outer_is_smaller ? "500000\n" : "300000\n");
    Write("/a/b/memory.current", outer_is_smaller ? "300000\n" : "100000\n");
    EXPECT_EQ(Found().limit, 300000u);
  }
}

// The mount is the last level; files that lie above it are nobody's.
TEST_F(CgroupTest, TheLevelsEndWithTheMount) {
  Write("/self", "0::/a/b\n");
  Write("/mount/a/b/memory.max", "max\n");
  Write("/mount/a/b/memory.current", "1\n");
  Write("/mount/memory.max", "1048576\n");
  Write("/mount/memory.current", "4096\n");
  Write("/memory.max", "5000\n");
  Write("/memory.current", "4999\n");
  CgroupWatch watch;
  watch.Find((root + "/mount").c_str(), (root + "/self").c_str());
  EXPECT_EQ(watch.Read().limit, 1048576u);
  std::filesystem::remove(root + "/mount/memory.max");
  EXPECT_EQ(watch.Read().limit, 0u);
}

TEST_F(CgroupTest, VersionOneOverrulesVersionTwo) {
  Write("/self", "4:memory:/x\n0::/x\n");
  Write("/memory/x/memory.limit_in_bytes", "2097152\n");
  Write("/memory/x/memory.usage_in_bytes", "8192\n");
  Write("/x/memory.max", "1048576\n");
  Write("/x/memory.current", "4096\n");
  EXPECT_EQ(Found().limit, 2097152u);
  Write("/self", "2:cpu:/x\n0::/x\n");
  Write("/cpu/x/cpu.cfs_quota_us", "250000\n");
  Write("/cpu/x/cpu.cfs_period_us", "100000\n");
  Write("/x/cpu.max", "50000 100000\n");
  CgroupWatch watch;
  watch.Find(root.c_str(), (root + "/self").c_str());
  EXPECT_EQ(watch.ReadCpuQuota(), 2500u);
}

// After a move, or a fork into another namespace, what was found before is forgotten.
TEST_F(CgroupTest, LookingAgainForgetsWhatWasThere) {
  Write("/self", "0::/a\n");
  Write("/a/memory.max", "1048576\n");
  Write("/a/memory.current", "4096\n");
  Write("/a/cpu.max", "50000 100000\n");
  CgroupWatch watch;
  watch.Find(root.c_str(), (root + "/self").c_str());
  EXPECT_EQ(watch.Read().limit, 1048576u);
  EXPECT_STREQ(watch.memory_directory(), (root + "/a").c_str());
  Write("/self", "0::/gone\n");
  std::filesystem::remove_all(root + "/a");
  watch.Find(root.c_str(), (root + "/self").c_str());
  EXPECT_STREQ(watch.memory_directory(), "");
  Write("/a/memory.max", "1048576\n");
  Write("/a/memory.current", "4096\n");
  Write("/a/cpu.max", "50000 100000\n");
  EXPECT_EQ(watch.Read().limit, 0u);
  EXPECT_EQ(watch.ReadCpuQuota(), 0u);
}

// A directory whose path is too long is none, and not one of its ancestors by accident.
TEST_F(CgroupTest, APathThatIsCutIsNotRead) {
  const std::string part(200, 'd');
  const std::string deep = "/" + part + "/" + part;
  Write("/self", "0::" + deep + "/" + part + "\n");
  Write(deep + "/memory.max", "1048576\n");
  Write(deep + "/memory.current", "4096\n");
  EXPECT_EQ(Found().limit, 1048576u);
  // The name of its file no longer fits behind it.
  Write("/self", "0::/" + std::string(250, 'd') + "/" + std::string(230, 'e') + "\n");
  EXPECT_EQ(Found().limit, 0u);
}

TEST_F(CgroupTest, CpuQuotasAtTheirEnds) {
  const auto quota = [this](const char* text) {
    Write("/cpu.max", text);
    CgroupWatch watch;
    watch.Find(root.c_str(), (root + "/self").c_str());
    return watch.ReadCpuQuota();
  };
  Write("/self", "0::/\n");
  EXPECT_EQ(quota("1 1000000"), 1u);  // less than a thousandth is no "as many as there are"
  EXPECT_EQ(quota("1000000000000 1"), UINT32_MAX / 2);
  EXPECT_EQ(quota("1099511627777 100000"), 0u);
  EXPECT_EQ(quota("1000000000000000000 1000"), 0u);  // times a thousand it would wrap
}

}  // namespace
}  // namespace strata
