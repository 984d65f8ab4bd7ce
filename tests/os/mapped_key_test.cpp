// The key in the list of mappings: shown there and matched as a whole, new each time, and gone in a
// forked child and after a failure.
#include "os/mapped_key.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace strata {
namespace {

// The keys that this process's list of mappings shows.
std::vector<std::string> Shown() {
  constexpr char kName[] = "/memfd:strata-key:";
  std::vector<std::string> keys;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t at = line.find(kName);
    if (at != std::string::npos)
      keys.push_back(line.substr(at + sizeof(kName) - 1, MappedKey::kLength));
  }
  return keys;
}

TEST(MappedKey, IsShownOnceAndMatchesAsAWhole) {
  MappedKey key;
  EXPECT_FALSE(key.made());
  EXPECT_FALSE(key.Matches(std::string(MappedKey::kLength, '0').c_str(), MappedKey::kLength));
  ASSERT_TRUE(key.Make());
  ASSERT_EQ(Shown().size(), 1u);
  const std::string digits = Shown()[0];
  ASSERT_EQ(digits.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_TRUE(key.Matches(digits.c_str(), digits.size()));
  for (size_t i = 0; i < digits.size(); ++i) {
    std::string other = digits;
    other[i] = other[i] == '0' ? '1' : '0';
    EXPECT_FALSE(key.Matches(other.c_str(), other.size())) << i;
  }
  EXPECT_FALSE(key.Matches(digits.c_str(), digits.size() - 1));
  EXPECT_FALSE(key.Matches((digits + "0").c_str(), digits.size() + 1));
  EXPECT_FALSE(key.Matches("", 0));
}

TEST(MappedKey, IsAnotherEachTimeAndTheLastOneAlone) {
  MappedKey key;
  std::set<std::string> seen;
  bool differs = false;  // the digits of a byte
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(key.Make());
    ASSERT_EQ(Shown().size(), 1u);
    const std::string digits = Shown()[0];
    EXPECT_TRUE(seen.insert(digits).second);
    for (size_t at = 0; at < digits.size(); at += 2) differs |= digits[at] != digits[at + 1];
  }
  EXPECT_TRUE(differs);
  key.Drop();
  EXPECT_FALSE(key.made());
  EXPECT_TRUE(Shown().empty());
  key.Drop();
}

TEST(MappedKey, AChildNeitherShowsNorHasIt) {
  MappedKey key;
  ASSERT_TRUE(key.Make());
  const std::string digits = Shown()[0];
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);  // a sanitizer's build has a handler
    if (!Shown().empty()) _exit(1);
    key.Matches(digits.c_str(), digits.size());  // touches what is not there: a fault
    _exit(2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
  EXPECT_EQ(WTERMSIG(status), SIGSEGV);
  EXPECT_TRUE(key.Matches(digits.c_str(), digits.size()));
}

TEST(MappedKey, WithoutADescriptorThereIsNone) {
  MappedKey key;
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool made = key.Make();
  const int why = errno;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_FALSE(made);
  EXPECT_EQ(why, EMFILE);
  EXPECT_FALSE(key.made());
  ASSERT_TRUE(key.Make());
  EXPECT_EQ(Shown().size(), 1u);
}

}  // namespace
}  // namespace strata
