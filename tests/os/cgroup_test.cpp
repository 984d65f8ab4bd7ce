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
  Write("/memory.stat", "anon 1\nfile 800000\ninactive_file 700000\nactive_file 100000\n");
  EXPECT_EQ(Found().usage, 200000u);
  Write("/self", "4:memory:/\n");
  Write("/memory/memory.limit_in_bytes", "1048576\n");
  Write("/memory/memory.usage_in_bytes", "900000\n");
  Write("/memory/memory.stat", "inactive_file 5\ntotal_inactive_file 600000\n");
  EXPECT_EQ(Found().usage, 300000u);
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

}  // namespace
}  // namespace strata
