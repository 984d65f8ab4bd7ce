// The tokens of names, against what strata/learn/tokens.py makes of the same ones.
#include "lifetime/tokens.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "golden.h"

namespace strata {
namespace {

std::string HashesOf(const std::string& name) {
  TokenHashes tokens;
  Tokenize(name.data(), name.size(), &tokens);
  std::string text;
  for (size_t i = 0; i < tokens.count; ++i) {
    char hash[20];
    snprintf(hash, sizeof(hash), "%s%016llx", i == 0 ? "" : " ",
             static_cast<unsigned long long>(tokens.hash[i]));
    text += hash;
  }
  if (tokens.site != 0) {
    char hash[20];
    snprintf(hash, sizeof(hash), "%s@%016llx", text.empty() ? "" : " ",
             static_cast<unsigned long long>(tokens.site));
    text += hash;
  }
  return text;
}

TEST(Tokens, AreThoseOfPython) {
  const auto rows = GoldenRows("tokens.txt");
  ASSERT_GT(rows.size(), 20U);
  for (const auto& row : rows) EXPECT_EQ(HashesOf(row.at(0)), row.at(1)) << row.at(0);
}

TEST(Tokens, LooksAtNoMoreThanTheBeginningOfALongName) {
  const std::string name(2 * kMostNameBytes, 'x');
  EXPECT_EQ(HashesOf(name), HashesOf(name.substr(0, kMostNameBytes)));
}

TEST(Tokens, ABuildsSuffixesChangeNothing) {
  EXPECT_EQ(HashesOf("_Z3foov.cold"), HashesOf("_Z3foov"));
  EXPECT_EQ(HashesOf("foo.part.0"), HashesOf("foo"));
  EXPECT_NE(HashesOf("foo"), HashesOf("bar"));
}

TEST(Tokens, APlaceStandsBehindASpace) {
  EXPECT_NE(HashesOf("f <ab12+0x10>").find('@'), std::string::npos);
  EXPECT_EQ(HashesOf("f<ab12+0x10>").find('@'), std::string::npos);
}

}  // namespace
}  // namespace strata
