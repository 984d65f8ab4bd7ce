// DAMON's files, over a tree of plain ones: what a kernel that has it reads there, and who else's
// configuration stays as it is.
#include "os/damon.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace strata {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMe = 4711;
constexpr AddressRange kRange{0x200000, 0x800000};
constexpr char kContext[] = "/kdamonds/0/contexts/0";

struct DamonTest : testing::Test {
  DamonTest() {
    char name[] = "/tmp/strata-damon-XXXXXX";
    root = mkdtemp(name);
  }
  ~DamonTest() override { fs::remove_all(root); }

  void Write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  }
  std::string Read(const std::string& path) {
    std::ifstream file(root + path);
    std::string text;
    std::getline(file, text);
    return text;
  }
  // As a kernel that has made what it was asked for. `filters`: the folder's name.
  void MakeTree(const std::string& operations, const std::string& filters) {
    Write("/kdamonds/nr_kdamonds", "0");
    Write("/kdamonds/0/state", "off");
    Write("/kdamonds/0/contexts/nr_contexts", "0");
    const std::string scheme = kContext + std::string("/schemes/0");
    Write(std::string(kContext) + "/avail_operations", operations);
    for (const char* file :
         {"/operations", "/targets/nr_targets", "/targets/0/pid_target", "/schemes/nr_schemes",
          "/monitoring_attrs/intervals/sample_us", "/monitoring_attrs/intervals/aggr_us",
          "/monitoring_attrs/intervals/update_us", "/monitoring_attrs/nr_regions/min",
          "/monitoring_attrs/nr_regions/max", "/targets/0/regions/nr_regions",
          "/targets/0/regions/0/start", "/targets/0/regions/0/end"})
      Write(kContext + std::string(file), "");
    for (const std::string file :
         {"/action", "/access_pattern/sz/min", "/access_pattern/sz/max",
          "/access_pattern/nr_accesses/min", "/access_pattern/nr_accesses/max",
          "/access_pattern/age/min", "/access_pattern/age/max", "/quotas/ms", "/quotas/bytes",
          "/quotas/reset_interval_ms"})
      Write(scheme + file, "");
    for (const std::string file : {"/nr_filters", "/0/type", "/0/memcg_path", "/0/matching"})
      Write(scheme + filters + file, "");
    if (filters == "/ops_filters") Write(scheme + filters + "/0/allow", "Y");
  }

  std::string root;
  const Damon damon() const { return Damon(root.c_str()); }
};

TEST_F(DamonTest, WatchesTheRangeWhereTheKernelCan) {
  MakeTree("vaddr\nfvaddr\npaddr\n", "/ops_filters");
  const std::string target = kContext + std::string("/targets/0");
  EXPECT_EQ(damon().Start(kMe, kRange, "/"), nullptr);
  EXPECT_EQ(Read(kContext + std::string("/operations")), "fvaddr");
  EXPECT_EQ(Read(target + "/pid_target"), "4711");
  EXPECT_EQ(Read(target + "/regions/nr_regions"), "1");
  EXPECT_EQ(Read(target + "/regions/0/start"), "2097152");
  EXPECT_EQ(Read(target + "/regions/0/end"), "8388608");
  EXPECT_EQ(Read(kContext + std::string("/schemes/0/quotas/ms")), "0");
  EXPECT_EQ(Read("/kdamonds/0/state").substr(0, 2), "on");
}

TEST_F(DamonTest, ARangeThatGrowsIsWatchedFromThenOn) {
  MakeTree("vaddr\nfvaddr\npaddr\n", "/ops_filters");
  ASSERT_EQ(damon().Start(kMe, kRange, "/"), nullptr);
  Write("/kdamonds/0/state", "on\n");
  Write(kContext + std::string("/operations"), "fvaddr\n");
  EXPECT_EQ(damon().Start(kMe, {kRange.begin, 0x900000}, "/"), nullptr);
  EXPECT_EQ(Read(kContext + std::string("/targets/0/regions/0/end")), "9437184");
  EXPECT_EQ(Read("/kdamonds/0/state"), "commit");
}

TEST_F(DamonTest, ElseItWatchesTheProcess) {
  MakeTree("vaddr\npaddr\n", "/ops_filters");
  EXPECT_EQ(damon().Start(kMe, kRange, "/"), nullptr);
  EXPECT_EQ(Read("/kdamonds/nr_kdamonds"), "1");
  EXPECT_EQ(Read("/kdamonds/0/contexts/nr_contexts"), "1");
  EXPECT_EQ(Read(kContext + std::string("/operations")), "vaddr");
  EXPECT_EQ(Read(kContext + std::string("/targets/0/pid_target")), "4711");
  EXPECT_EQ(Read(kContext + std::string("/schemes/0/action")), "pageout");
  EXPECT_EQ(Read(kContext + std::string("/schemes/0/access_pattern/nr_accesses/max")), "0");
  EXPECT_EQ(Read("/kdamonds/0/state").substr(0, 2), "on");
}

TEST_F(DamonTest, ElseItWatchesTheCgroup) {
  for (const char* filters : {"/ops_filters", "/filters"}) {
    MakeTree("paddr\n", filters);
    const std::string scheme = kContext + std::string("/schemes/0");
    EXPECT_EQ(damon().Start(kMe, kRange, "/a/b"), nullptr);
    EXPECT_EQ(Read(kContext + std::string("/operations")), "paddr");
    EXPECT_EQ(Read(scheme + filters + "/0/type"), "memcg");
    EXPECT_EQ(Read(scheme + filters + "/0/memcg_path"), "/a/b");
    EXPECT_EQ(Read(scheme + filters + "/0/matching"), "N");
    fs::remove_all(root + "/kdamonds");
  }
}

TEST_F(DamonTest, TheWholeMachineIsNeverPagedOut) {
  for (const char* group : {"", "/"}) {
    MakeTree("paddr\n", "/ops_filters");
    EXPECT_STREQ(damon().Start(kMe, kRange, group),
                 "the kernel can only watch a cgroup, and the process has none of its own");
    EXPECT_EQ(Read("/kdamonds/0/state"), "off");
    EXPECT_EQ(Read("/kdamonds/nr_kdamonds"), "0");
  }
}

TEST_F(DamonTest, OthersKeepTheirConfiguration) {
  MakeTree("vaddr\npaddr\n", "/ops_filters");
  Write("/kdamonds/nr_kdamonds", "2");
  Write("/kdamonds/0/state", "off");
  Write("/kdamonds/1/state", "on\n");
  EXPECT_STREQ(damon().Start(kMe, kRange, "/a"), "something else has it on");
  Write("/kdamonds/0/state", "on\n");
  Write(kContext + std::string("/operations"), "vaddr\n");
  Write(kContext + std::string("/targets/0/pid_target"), "99\n");
  EXPECT_STREQ(damon().Start(kMe, kRange, "/a"), "something else has it on");
  damon().Stop(kMe, "/a");
  EXPECT_EQ(Read("/kdamonds/0/state"), "on");
  EXPECT_EQ(Read("/kdamonds/nr_kdamonds"), "2");
  EXPECT_EQ(Read(kContext + std::string("/schemes/0/action")), "");
}

TEST_F(DamonTest, OneThatWatchesThisProcessAlreadyIsOursAndStops) {
  MakeTree("paddr\n", "/ops_filters");
  ASSERT_EQ(damon().Start(kMe, kRange, "/a"), nullptr);
  Write("/kdamonds/0/state", "on\n");  // sysfs has lines, without what was there before
  EXPECT_EQ(damon().Start(kMe + 1, kRange, "/a"), nullptr);  // after a kill: by its cgroup
  EXPECT_STREQ(damon().Start(kMe, kRange, "/b"), "something else has it on");
  const std::string looks = kContext + std::string("/monitoring_attrs/intervals/sample_us");
  Write(looks, "5000\n");  // an operator's, of the same cgroup
  EXPECT_STREQ(damon().Start(kMe, kRange, "/a"), "something else has it on");
  Write(looks, "100000\n");
  damon().Stop(kMe, "/a");
  EXPECT_EQ(Read("/kdamonds/0/state").substr(0, 3), "off");
  EXPECT_EQ(Read("/kdamonds/nr_kdamonds"), "0");
}

TEST_F(DamonTest, SaysWhyNot) {
  EXPECT_STREQ(damon().Start(kMe, kRange, "/a"), "the kernel has none");
  MakeTree("vaddr\n", "/ops_filters");
  fs::remove(root + "/kdamonds/0/state");
  EXPECT_STREQ(damon().Start(kMe, kRange, "/a"), "the kernel refuses the settings");
  EXPECT_EQ(Read("/kdamonds/nr_kdamonds"), "0");
  fs::remove(root + "/kdamonds/0/contexts/nr_contexts");
  EXPECT_STREQ(damon().Start(kMe, kRange, "/a"),
               "it takes the right to write /sys/kernel/mm/damon");
}

}  // namespace
}  // namespace strata
