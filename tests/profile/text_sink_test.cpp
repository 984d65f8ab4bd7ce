// TextSink: snprintf's rules at every capacity, its formats, and file descriptors that take little
// or nothing.
#include "profile/text_sink.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmath>
#include <string>
#include <vector>

namespace strata {
namespace {

template <class F>
std::string TextOf(F f) {
  char text[256];
  TextSink sink(text, sizeof(text));
  f(sink);
  const size_t n = sink.Finish();
  EXPECT_EQ(n, strlen(text));
  return text;
}

TEST(TextSink, CutsAtEveryCapacityAsSnprintfDoes) {
  const std::string whole = "size 18446744073709551615 end";
  for (size_t capacity = 0; capacity <= whole.size() + 3; ++capacity) {
    std::vector<char> memory(capacity + 2, '#');
    TextSink sink(memory.data() + 1, capacity);
    sink.Text("size ").Number(~uint64_t{0}).Char(' ').Text("end");
    bool ok = false;
    EXPECT_EQ(sink.Finish(&ok), whole.size()) << capacity;
    EXPECT_TRUE(ok);
    EXPECT_EQ(memory.front(), '#');
    EXPECT_EQ(memory.back(), '#');
    if (capacity == 0) continue;
    EXPECT_EQ(std::string(memory.data() + 1), whole.substr(0, capacity - 1)) << capacity;
  }
}

TEST(TextSink, NullMemoryOfNoCapacityOnlyCounts) {
  TextSink sink(nullptr, 0);
  sink.Text("12345").Number(678);
  EXPECT_EQ(sink.Finish(), 8u);
}

TEST(TextSink, WritesPercent) {
  EXPECT_EQ(TextOf([](TextSink& s) { s.Percent(0.869688).Char(' ').Percent(0); }), "87.0 % 0.0 %");
  EXPECT_EQ(TextOf([](TextSink& s) { s.Percent(1).Char(' ').Percent(-1); }), "100.0 % 0.0 %");
}

TEST(TextSink, Formats) {
  EXPECT_EQ(TextOf([](TextSink& s) { s.Number(0).Char(' ').Number(1234567890123); }),
            "0 1234567890123");
  EXPECT_EQ(
      TextOf([](TextSink& s) { s.Fraction(0).Char(' ').Fraction(1).Char(' ').Fraction(0.93456); }),
      "0.0000 1.0000 0.9346");
  EXPECT_EQ(TextOf([](TextSink& s) { s.Fraction(99.99996).Char(' ').Fraction(-1); }),
            "100.0000 0.0000");
  EXPECT_EQ(TextOf([](TextSink& s) { s.Fraction(std::nan("")).Char(' ').Fraction(1e300); }),
            "0.0000 1000000000000000.0000");
  EXPECT_EQ(TextOf([](TextSink& s) { s.Fraction(0.0001).Char(' ').Fraction(12.0305); }),
            "0.0001 12.0305");
  EXPECT_EQ(
      TextOf([](TextSink& s) { s.Padded("ab", 4).Padded("abcde", 4).Padded("", 2).Char('|'); }),
      "ab  abcde  |");
}

TEST(TextSink, SizesBelowAMebibyteAreKibibytes) {
  const auto of = [](size_t bytes) { return TextOf([&](TextSink& s) { s.Size(bytes); }); };
  EXPECT_EQ(of(0), "0");
  EXPECT_EQ(of(1), "0.0 KiB");
  EXPECT_EQ(of(1536), "1.5 KiB");
  EXPECT_EQ(of((1 << 20) - 1), "1024.0 KiB");
  EXPECT_EQ(of(1 << 20), "1.0 MiB");
  EXPECT_EQ(of(SIZE_MAX), "17592186044416.0 MiB");
}

TEST(TextSink, Mebibytes) {
  const auto of = [](size_t bytes) { return TextOf([&](TextSink& s) { s.Mebibytes(bytes); }); };
  EXPECT_EQ(of(0), "0.0 MiB");
  EXPECT_EQ(of(1 << 20), "1.0 MiB");
  EXPECT_EQ(of((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(of(12'910'000), "12.3 MiB");
  EXPECT_EQ(of(size_t{1} << 60), "1099511627776.0 MiB");
  EXPECT_EQ(of(~size_t{0}), "17592186044416.0 MiB");
}

TEST(TextSink, AFileGetsEverythingInOrder) {
  char path[] = "/tmp/strata_text_sink_XXXXXX";
  const int fd = mkstemp(path);
  ASSERT_GE(fd, 0);
  std::string expected;
  TextSink sink(fd);
  for (uint64_t i = 0; i < 3000; ++i) {  // several of its buffers
    sink.Number(i).Char(',');
    expected += std::to_string(i) + ",";
  }
  bool ok = false;
  EXPECT_EQ(sink.Finish(&ok), expected.size());
  EXPECT_TRUE(ok);
  std::string got(expected.size() + 10, '\0');
  const ssize_t n = pread(fd, got.data(), got.size(), 0);
  ASSERT_EQ(n, static_cast<ssize_t>(expected.size()));
  got.resize(expected.size());
  EXPECT_EQ(got, expected);
  close(fd);
  unlink(path);
}

// A disk that was full for a moment.
TEST(TextSink, AFailedWriteIsToldThoughTheLastSucceeds) {
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC), null = open("/dev/null", O_WRONLY);
  ASSERT_GE(full, 0);
  ASSERT_GE(null, 0);
  TextSink sink(full);
  for (int i = 0; i < 1000; ++i) sink.Text("some text ");
  ASSERT_EQ(dup2(null, full), full);
  for (int i = 0; i < 1000; ++i) sink.Text("some text ");
  bool ok = true;
  sink.Finish(&ok);
  EXPECT_FALSE(ok);
  close(full);
  close(null);
}

TEST(TextSink, AFailedWriteIsTold) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  TextSink sink(ends[1]);
  for (int i = 0; i < 1000; ++i) sink.Text("some text ");
  bool ok = true;
  EXPECT_EQ(sink.Finish(&ok), 10'000u);
  EXPECT_FALSE(ok);
  close(ends[1]);
}

}  // namespace
}  // namespace strata
