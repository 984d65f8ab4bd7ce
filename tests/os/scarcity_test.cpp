// What is left, out of trees of plain files: a cgroup of either version, or the machine.
#include "os/scarcity.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace strata {
namespace {

struct ScarcityTest : testing::Test {
  ScarcityTest() {
    char name[] = "/tmp/strata-scarcity-XXXXXX";
    root = mkdtemp(name);
    self = root + "/self";
    pressure = root + "/pressure";
  }
  ~ScarcityTest() override { std::filesystem::remove_all(root); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = root + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  ScarcityWatch Found() {
    ScarcityWatch watch({root.c_str(), self.c_str(), root.c_str(), pressure.c_str()});
    watch.Find();
    return watch;
  }

  // The cgroup's own limit comes first, the machine's last.
  std::vector<MemorySupply> Memory(const ScarcityWatch& watch) {
    std::vector<MemorySupply> all;
    watch.ForEachMemory([&](const MemorySupply& m) { all.push_back(m); });
    return all;
  }
  MemorySupply First(const ScarcityWatch& watch) {
    const std::vector<MemorySupply> all = Memory(watch);
    return all.empty() ? MemorySupply() : all.front();
  }
  std::vector<CgroupPids> Pids(const ScarcityWatch& watch) {
    std::vector<CgroupPids> all;
    watch.ForEachPids([&](const CgroupPids& p) { all.push_back(p); });
    return all;
  }

  std::string root, self, pressure;
};

TEST_F(ScarcityTest, TheCgroupAndItsPressure) {
  Write("/self", "0::/a\n");
  Write("/a/memory.max", "1048576\n");
  Write("/a/memory.current", "4096\n");
  Write("/a/memory.pressure",
        "some avg10=12.50 avg60=1.00 avg300=0.00 total=1\nfull avg10=3.00 avg60=0 avg300=0 "
        "total=1\n");
  const MemorySupply m = First(Found());
  EXPECT_EQ(m.limit, 1048576u);
  EXPECT_EQ(m.used, 4096u);
  EXPECT_DOUBLE_EQ(m.pressure, 0.125);
}

TEST_F(ScarcityTest, VersionOneHasNoPressure) {
  Write("/self", "4:memory:/x\n0::/x\n");
  Write("/memory/x/memory.limit_in_bytes", "2097152\n");
  Write("/memory/x/memory.usage_in_bytes", "8192\n");
  const MemorySupply m = First(Found());
  EXPECT_EQ(m.limit, 2097152u);
  EXPECT_EQ(m.pressure, 0);
}

// Where files fill a cgroup that nobody presses, all their pages may be in use and stay so: the
// price keeps who grows from where the kernel would drop them.
TEST_F(ScarcityTest, HalfOfTheFileCacheInUseIsLeft) {
  Write("/self", "0::/a\n");
  Write("/a/memory.max", "1048576\n");
  Write("/a/memory.current", "1000000\n");
  Write("/a/memory.stat", "anon 100000\nactive_file 800000\ninactive_file 50000\n");
  EXPECT_EQ(First(Found()).used, 550000u);
}

// A kernel without PSI has no such file; one started with psi=0 gives an error; another might
// change the words.
TEST_F(ScarcityTest, PressureThatIsMissingOrMakesNoSenseIsNone) {
  Write("/self", "0::/a\n");
  Write("/a/memory.max", "1048576\n");
  Write("/a/memory.current", "4096\n");
  EXPECT_EQ(First(Found()).pressure, 0);
  std::filesystem::create_directory(root + "/a/memory.pressure");  // reading it is an error
  EXPECT_EQ(First(Found()).pressure, 0);
  std::filesystem::remove(root + "/a/memory.pressure");
  for (const char* text : {"", "full avg10=50.00\n", "some avg10=\n", "some avg10=-3.0\n"}) {
    Write("/a/memory.pressure", text);
    const MemorySupply m = First(Found());
    EXPECT_EQ(m.pressure, 0) << text;
    EXPECT_EQ(m.limit, 1048576u) << text;
  }
  Write("/a/memory.pressure", "some avg10=4000.00\n");
  EXPECT_EQ(First(Found()).pressure, 1);
}

// Raised, lowered below what is used, or taken away: what is read next is what holds.
TEST_F(ScarcityTest, ALimitThatChangesIsReadAnew) {
  Write("/self", "0::/a\n");
  Write("/meminfo", "MemTotal:  1000 kB\nMemAvailable:  900 kB\n");
  Write("/a/memory.max", "1048576\n");
  Write("/a/memory.current", "524288\n");
  const ScarcityWatch watch = Found();
  EXPECT_EQ(First(watch).limit, 1048576u);
  Write("/a/memory.max", "262144\n");
  EXPECT_EQ(First(watch).limit, 262144u);
  EXPECT_EQ(First(watch).used, 524288u);
  Write("/a/memory.max", "max\n");
  EXPECT_EQ(First(watch).limit, 1000u * 1024);  // the machine's
  std::filesystem::remove_all(root + "/a");
  EXPECT_EQ(First(watch).limit, 1000u * 1024);
}

TEST_F(ScarcityTest, TheMachineWhereNoCgroupSetsALimit) {
  Write("/meminfo",
        "MemTotal:        1000 kB\nMemFree:           10 kB\nMemAvailable:     200 kB\n"
        "SwapTotal:        500 kB\nSwapFree:         100 kB\n");
  Write("/pressure", "some avg10=100.00 avg60=0 avg300=0 total=0\n");
  const MemorySupply m = First(Found());
  EXPECT_EQ(m.limit, 1500u * 1024);
  EXPECT_EQ(m.used, 1200u * 1024);
  EXPECT_EQ(m.pressure, 1);
}

TEST_F(ScarcityTest, NothingIsKnownWithoutFiles) {
  EXPECT_EQ(First(Found()).limit, 0u);
  EXPECT_EQ(First(Found()).pressure, 0);
  EXPECT_TRUE(Pids(Found()).empty());
}

// Of a node whose pods may take more than it has, or a slice that holds less than what is in it.
TEST_F(ScarcityTest, EveryLimitCountsAndTheMachine) {
  Write("/self", "0::/a/b\n");
  Write("/meminfo", "MemTotal:  1000 kB\nMemAvailable:  30 kB\n");
  Write("/a/memory.max", "8192\n");
  Write("/a/memory.current", "8000\n");
  Write("/a/b/memory.max", "4096\n");
  Write("/a/b/memory.current", "1000\n");
  const std::vector<MemorySupply> all = Memory(Found());
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].limit, 4096u);
  EXPECT_EQ(all[1].limit, 8192u);
  EXPECT_EQ(all[1].used, 8000u);
  EXPECT_EQ(all[2].limit, 1000u * 1024);
  EXPECT_EQ(all[2].used, 970u * 1024);
}

// As where no descriptor is left: who owes must not be told that nothing is scarce.
TEST_F(ScarcityTest, WhatCannotBeReadIsSaid) {
  Write("/self", "0::/a\n");
  Write("/meminfo", "MemTotal:  1000 kB\nMemAvailable:  900 kB\n");
  Write("/a/memory.max", "1048576\n");
  Write("/a/memory.current", "4096\n");
  const auto nothing = [](const MemorySupply&) {};
  EXPECT_TRUE(Found().ForEachMemory(nothing));
  const ScarcityWatch watch = Found();
  std::filesystem::remove(root + "/a/memory.current");
  std::filesystem::create_directory(root + "/a/memory.current");  // reading it is an error
  EXPECT_FALSE(watch.ForEachMemory(nothing));
  EXPECT_EQ(First(watch).limit, 1000u * 1024) << "nothing is made up of half a level";
  std::filesystem::remove(root + "/meminfo");
  std::filesystem::create_directory(root + "/meminfo");
  EXPECT_FALSE(watch.ForEachMemory(nothing));
  EXPECT_TRUE(Memory(watch).empty());
}

TEST_F(ScarcityTest, AMachineThatDoesNotSayWhatIsAvailableHasNoLimit) {
  Write("/meminfo", "MemTotal:  1000 kB\nMemFree:  10 kB\n");
  EXPECT_TRUE(Memory(Found()).empty());
  Write("/meminfo", "MemTotal:  1000 kB\nMemAvailable:  0 kB\n");
  EXPECT_EQ(First(Found()).used, 1000u * 1024);
}

// One that thrashes in a box of its own is no reason for others to wait.
TEST_F(ScarcityTest, TheOwnCgroupsPressureCountsAtEveryLevel) {
  Write("/self", "0::/a/b\n");
  Write("/meminfo", "MemTotal:  1000 kB\nMemAvailable:  900 kB\n");
  Write("/pressure", "some avg10=90.00 avg60=0 avg300=0 total=0\n");
  Write("/a/memory.max", "8192\n");
  Write("/a/memory.current", "4096\n");
  Write("/a/memory.pressure", "some avg10=80.00 avg60=0 avg300=0 total=0\n");
  Write("/a/b/memory.current", "1000\n");
  Write("/a/b/memory.pressure", "some avg10=20.00 avg60=0 avg300=0 total=0\n");
  const std::vector<MemorySupply> all = Memory(Found());
  ASSERT_EQ(all.size(), 2u);
  EXPECT_DOUBLE_EQ(all[0].pressure, 0.2);
  EXPECT_DOUBLE_EQ(all[1].pressure, 0.2);
}

TEST_F(ScarcityTest, ProcessIdsOfEachLevelThatHasALimit) {
  for (const char* prefix : {"", "/pids"}) {
    Write("/self", *prefix == '\0' ? "0::/a/b\n" : "8:pids:/a/b\n0::/\n");
    Write(std::string(prefix) + "/a/pids.max", "100\n");
    Write(std::string(prefix) + "/a/pids.current", "95\n");
    Write(std::string(prefix) + "/a/b/pids.max", "max\n");
    Write(std::string(prefix) + "/a/b/pids.current", "7\n");
    const std::vector<CgroupPids> all = Pids(Found());
    ASSERT_EQ(all.size(), 1u) << prefix;
    EXPECT_EQ(all[0].limit, 100u) << prefix;
    EXPECT_EQ(all[0].used, 95u) << prefix;
  }
}

}  // namespace
}  // namespace strata
