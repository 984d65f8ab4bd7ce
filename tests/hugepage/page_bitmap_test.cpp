// PageBitmap against the obvious bit-by-bit answers.
#include "hugepage/page_bitmap.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace strata {
namespace {

using Bits = PageBitmap<256>;

// Random runs of random density, so that short and long runs both occur.
std::string RandomMap(std::mt19937& random) {
  std::string s;
  const unsigned mean = 1u << (random() % 8);
  for (char c = '0'; s.size() < 256; c = c == '0' ? '1' : '0') s.append(1 + random() % mean, c);
  s.resize(256);
  return s;
}

Bits FromString(const std::string& s) {
  Bits b;
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] == '1') b.SetRange(i, 1);
  }
  return b;
}

TEST(PageBitmap, AnswersAsBitByBit) {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    const std::string s = RandomMap(random);
    const Bits b = FromString(s);
    size_t longest = 0, run = 0, count = 0;
    for (char c : s) {
      run = c == '1' ? run + 1 : 0;
      longest = std::max(longest, run);
      count += c == '1';
    }
    ASSERT_EQ(b.LongestRun(), longest) << s;
    ASSERT_EQ(b.Count(), count);
    const size_t at = random() % 256, n = random() % (257 - at);
    ASSERT_EQ(b.CountIn(at, n),
              static_cast<size_t>(std::count(s.begin() + at, s.begin() + at + n, '1')));
    ASSERT_EQ(b.AnyIn(at, n), b.CountIn(at, n) > 0);
    ASSERT_EQ(b.AllIn(at, n), b.CountIn(at, n) == n);
    ASSERT_EQ(b.NextSet(at), std::min<size_t>(s.find('1', at), 256));
    ASSERT_EQ(b.NextClear(at), std::min<size_t>(s.find('0', at), 256));
    const size_t zero_before = at == 0 ? std::string::npos : s.rfind('0', at - 1);
    ASSERT_EQ(b.RunBefore(at), zero_before == std::string::npos ? at : at - 1 - zero_before);
  }
}

TEST(PageBitmap, FindsRunsOfExactlyOneLength) {
  std::mt19937 random(8);
  for (int round = 0; round < 2000; ++round) {
    const Bits b = FromString(RandomMap(random));
    const size_t n = 1 + random() % 40;
    Bits expected;
    b.ForRuns([&](size_t at, size_t length) {
      if (length == n) expected.SetRange(at, 1);
    });
    ASSERT_TRUE(b.RunsOfExactly(n) == expected);
  }
  Bits full;
  full.SetRange(0, 256);
  EXPECT_TRUE(full.RunsOfExactly(256).Test(0));
  EXPECT_FALSE(full.RunsOfExactly(255).Any());
}

TEST(PageBitmap, SetsAndClearsAcrossWords) {
  Bits b;
  b.SetRange(60, 140);
  EXPECT_EQ(b.Count(), 140u);
  EXPECT_EQ(b.LongestRun(), 140u);
  b.ClearRange(64, 64);
  EXPECT_EQ(b.LongestRun(), 72u);
  EXPECT_EQ(b.RunFrom(128), 72u);
  EXPECT_EQ(b.RunBefore(64), 4u);
}

}  // namespace
}  // namespace strata
