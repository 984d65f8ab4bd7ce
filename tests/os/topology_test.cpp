// Cache domains from text and from a directory laid out as sysfs does it.
#include "os/topology.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace strata::test {
namespace {

TEST(CacheTopology, ParsesLists) {
  CacheTopology t;
  ASSERT_TRUE(ParseCacheDomains("0-3,8-11;4-7", t));
  EXPECT_EQ(t.domains, 2u);
  EXPECT_EQ(t.cpus_in[0], 8u);
  EXPECT_EQ(t.cpus_in[1], 4u);
  EXPECT_EQ(t.DomainOf(0), 0u);
  EXPECT_EQ(t.DomainOf(9), 0u);
  EXPECT_EQ(t.DomainOf(7), 1u);
  EXPECT_EQ(t.DomainOf(12), CacheTopology::kNoDomain);
  EXPECT_EQ(t.DomainOf(1 << 20), CacheTopology::kNoDomain);
  ASSERT_TRUE(ParseCacheDomains("1023", t));
  EXPECT_EQ(t.domains, 1u);
}

TEST(CacheTopology, RefusesWhatIsNoTopology) {
  CacheTopology t;
  ASSERT_TRUE(ParseCacheDomains("0;1", t));
  for (const char* text : {"", ";", "0;", ";0", "0,", "0-", "3-1", "a", "0-3;3", "0 ", "0;;1", "-1",
                           "1024", "99999999999999999999", "0-1,1", "0x1", "0\n"}) {
    EXPECT_FALSE(ParseCacheDomains(text, t)) << text;
    EXPECT_EQ(t.domains, 2u);
  }
  std::string many = "0";
  for (size_t i = 1; i < CacheTopology::kMostDomains; ++i) many += ";" + std::to_string(i);
  EXPECT_TRUE(ParseCacheDomains(many.c_str(), t));
  EXPECT_FALSE(ParseCacheDomains((many + ";1000").c_str(), t));
}

class CacheTopologyFiles : public testing::Test {
 protected:
  CacheTopologyFiles() {
    std::string name = testing::TempDir() + "strata-topology-XXXXXX";
    root_ = mkdtemp(name.data());
  }
  ~CacheTopologyFiles() override { std::filesystem::remove_all(root_); }

  void AddCache(int cpu, int index, int level, const char* type, const char* sharers) {
    const auto dir =
        root_ / ("cpu" + std::to_string(cpu)) / "cache" / ("index" + std::to_string(index));
    std::filesystem::create_directories(dir);
    std::ofstream(dir / "level") << level << "\n";
    std::ofstream(dir / "type") << type << "\n";
    std::ofstream(dir / "shared_cpu_list") << sharers << "\n";
  }
  CacheTopology Read() { return ReadCacheTopology(root_.c_str()); }

  std::filesystem::path root_;
};

TEST_F(CacheTopologyFiles, TheHighestLevelCounts) {
  for (int cpu = 0; cpu < 8; ++cpu) {
    const std::string self = std::to_string(cpu);
    AddCache(cpu, 0, 1, "Data", self.c_str());
    AddCache(cpu, 1, 1, "Instruction", self.c_str());
    AddCache(cpu, 2, 2, "Unified", self.c_str());
    AddCache(cpu, 3, 3, "Unified", cpu % 4 < 2 ? "0-1,4-5" : "2-3,6-7");
  }
  const CacheTopology t = Read();
  ASSERT_EQ(t.domains, 2u);
  for (size_t cpu = 0; cpu < 8; ++cpu) EXPECT_EQ(t.DomainOf(cpu), cpu % 4 < 2 ? 0u : 1u);
  EXPECT_EQ(t.cpus_in[1], 4u);
}

TEST_F(CacheTopologyFiles, GapsAndNonsenseLeaveCpusOut) {
  AddCache(0, 0, 3, "Unified", "0-1");
  AddCache(1, 0, 3, "Unified", "0-1");
  AddCache(3, 0, 3, "Unified", "what");  // CPU 2 is offline
  AddCache(4, 0, 3, "Unified", "1,4");   // contradicts CPU 0's
  AddCache(5, 0, 3, "Unified", "6");     // leaves itself out
  AddCache(7, 0, 3, "Unified", "7");
  const CacheTopology t = Read();
  EXPECT_EQ(t.domains, 2u);
  EXPECT_EQ(t.DomainOf(1), 0u);
  EXPECT_EQ(t.DomainOf(7), 1u);
  for (const size_t cpu : {2, 3, 4, 5}) EXPECT_EQ(t.DomainOf(cpu), CacheTopology::kNoDomain);
}

TEST_F(CacheTopologyFiles, NothingThereIsNoDomain) { EXPECT_EQ(Read().domains, 0u); }

TEST(CacheTopology, OfThisMachineCoversItsOwnCpus) {
  const CacheTopology t = ReadCacheTopology("/sys/devices/system/cpu");
  if (t.domains == 0) GTEST_SKIP() << "this machine's kernel does not say";
  size_t cpus = 0;
  for (size_t d = 0; d < t.domains; ++d) cpus += t.cpus_in[d];
  EXPECT_GE(cpus, 1u);
  EXPECT_LT(t.DomainOf(0), t.domains);
}

}  // namespace
}  // namespace strata::test
