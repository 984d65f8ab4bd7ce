// The parser of control requests: every form, and every way to get one wrong.
#include "control/request.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace strata {
namespace {

std::string Wrong(const std::string& line) {
  ControlRequest request;
  const char* message = ParseRequest(line.data(), line.size(), request);
  return message == nullptr ? "" : message;
}

ControlRequest Parsed(const std::string& line) {
  ControlRequest request;
  EXPECT_STREQ(ParseRequest(line.data(), line.size(), request), nullptr) << line;
  return request;
}

TEST(ControlRequest, Stats) {
  EXPECT_EQ(Parsed("stats").format, StatsFormat::kJson);
  EXPECT_EQ(Parsed("stats json").verb, ControlVerb::kStats);
  EXPECT_EQ(Parsed("  stats   text ").format, StatsFormat::kText);
  EXPECT_EQ(Parsed("stats prometheus").format, StatsFormat::kPrometheus);
  EXPECT_NE(Wrong("stats xml"), "");
  EXPECT_NE(Wrong("stats jsonjsonjsonjsonjson"), "");
  EXPECT_NE(Wrong("stats json text"), "");
}

TEST(ControlRequest, Profile) {
  const ControlRequest now = Parsed("profile heap");
  EXPECT_EQ(now.verb, ControlVerb::kProfile);
  EXPECT_STREQ(now.name, "heap");
  EXPECT_EQ(now.seconds, 0u);
  EXPECT_EQ(Parsed("profile lifetime 30").seconds, 30u);
  EXPECT_EQ(Parsed("profile lifetime 3600").seconds, 3600u);
  for (const char* line : {"profile", "profile heap 3601", "profile heap -1", "profile heap 1 2",
                           "profile heap 1s", "profile heap 99999999999999999999"}) {
    EXPECT_NE(Wrong(line), "") << line;
  }
}

TEST(ControlRequest, Release) {
  EXPECT_EQ(Parsed("release").bytes, SIZE_MAX);
  EXPECT_EQ(Parsed("release 5").bytes, 5u);
  EXPECT_EQ(Parsed("release 2M").bytes, size_t{2} << 20);
  EXPECT_NE(Wrong("release all"), "");
  EXPECT_NE(Wrong("release 1 2"), "");
}

TEST(ControlRequest, SetAndGet) {
  const ControlRequest set = Parsed("set heap_limit=2G");
  EXPECT_STREQ(set.name, "heap_limit");
  EXPECT_STREQ(set.value, "2G");
  EXPECT_STREQ(Parsed("set a=b=c").value, "b=c");
  EXPECT_STREQ(Parsed("set a=").value, "");
  for (const char* line : {"set", "set a", "set =1", "set a = 1"}) EXPECT_NE(Wrong(line), "");
  EXPECT_NE(Wrong("set " + std::string(48, 'n') + "=1"), "");
  EXPECT_EQ(Wrong("set " + std::string(47, 'n') + "=" + std::string(255, 'v')), "");
  EXPECT_NE(Wrong("set n=" + std::string(256, 'v')), "");
  EXPECT_STREQ(Parsed("get").name, "");
  EXPECT_STREQ(Parsed("get release").name, "release");
  EXPECT_NE(Wrong("get a b"), "");
}

TEST(ControlRequest, NothingOfAnEarlierRequestIsLeft) {
  ControlRequest request;
  for (const char* line : {"set a=b", "get"}) {
    EXPECT_EQ(ParseRequest(line, strlen(line), request), nullptr);
  }
  EXPECT_STREQ(request.name, "");
  EXPECT_STREQ(request.value, "");
}

TEST(ControlRequest, Garbage) {
  EXPECT_NE(Wrong(""), "");
  EXPECT_NE(Wrong("   "), "");
  EXPECT_NE(Wrong("statss"), "");
  EXPECT_NE(Wrong("STATS"), "");
  EXPECT_NE(Wrong("version 1"), "");
  EXPECT_NE(Wrong(std::string("stats\0json", 10)), "");
  EXPECT_NE(Wrong("stats\tjson"), "");
  EXPECT_NE(Wrong("get \xff"), "");
  EXPECT_NE(Wrong("version" + std::string(1018, ' ')), "");
  EXPECT_EQ(Wrong("version" + std::string(1017, ' ')), "");
}

}  // namespace
}  // namespace strata
