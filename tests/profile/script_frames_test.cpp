// Names of script frames, each kept once: what comes back, full tables, hostile addresses, threads
// that bring the same ones; and the lines of CPython's location tables.
#include "profile/script_frames.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <thread>

#include "profile/python/location_table.h"

namespace strata {
namespace {

void* Map(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}
void* MapNothing(size_t) { return nullptr; }

TEST(ScriptFramesTest, EachIsKeptOnce) {
  ScriptFrames frames(Map);
  EXPECT_EQ(frames.bytes(), 0u);
  const uintptr_t a = frames.Intern({"Store.load", "/srv/app.py", 12});
  const uintptr_t b = frames.Intern({"Store.load", "/srv/app.py", 13});
  const uintptr_t c = frames.Intern({"Store.loa", "d/srv/app.py", 12});
  EXPECT_TRUE(ScriptFrames::IsScriptFrame(a));
  EXPECT_NE(a, b);
  EXPECT_NE(a, c);
  EXPECT_EQ(frames.Intern({"Store.load", "/srv/app.py", 12}), a);
  ScriptFrame found;
  ASSERT_TRUE(frames.Find(c, &found));
  EXPECT_EQ(found.name, "Store.loa");
  EXPECT_EQ(found.file, "d/srv/app.py");
  EXPECT_EQ(found.line, 12u);
  EXPECT_GT(frames.bytes(), 0u);
}

TEST(ScriptFramesTest, LongTextsAreCutBetweenCharacters) {
  ScriptFrames frames(Map);
  std::string name(ScriptFrames::kLongest - 1, 'n');
  name += "größe";  // the cut would fall into the second character
  ScriptFrame found;
  ASSERT_TRUE(frames.Find(frames.Intern({name, "f", 1}), &found));
  EXPECT_EQ(found.name.size(), ScriptFrames::kLongest);
  name.insert(0, 2, 'x');
  name.insert(ScriptFrames::kLongest - 1, "ö");
  ASSERT_TRUE(frames.Find(frames.Intern({name, "f", 1}), &found));
  EXPECT_EQ(found.name.size(), ScriptFrames::kLongest - 1);
}

TEST(ScriptFramesTest, WithoutMemoryAndFull) {
  ScriptFrames none(MapNothing);
  EXPECT_EQ(none.Intern({"f", "g", 1}), 0u);
  ScriptFrames frames(Map);
  const uintptr_t first = frames.Intern({"f", "g", 1});
  const std::string long_name(1000, 'n');
  uint32_t line = 0;
  while (frames.Intern({long_name, "g", ++line}) != 0) ASSERT_LT(line, 100'000u);
  EXPECT_GT(line, 3'000u);
  EXPECT_EQ(frames.Intern({"f", "g", 1}), first);
  EXPECT_LE(frames.bytes(), ScriptFrames::kBytes);
}

TEST(ScriptFramesTest, FindsNothingThatItDidNotGiveOut) {
  ScriptFrames frames(Map);
  ScriptFrame found;
  EXPECT_FALSE(frames.Find(uintptr_t{1} << 62, &found));
  const uintptr_t frame = frames.Intern({"name", "file", 7});
  for (const uintptr_t wrong : {uintptr_t{0}, frame & ~(uintptr_t{1} << 62), frame + 1, frame + 4,
                                frame - 4, frame + 4096, UINTPTR_MAX, uintptr_t{1} << 62}) {
    EXPECT_FALSE(frames.Find(wrong, &found)) << wrong;
  }
}

TEST(ScriptFramesTest, ANameThatLooksLikeARecord) {
  ScriptFrames frames(Map);
  const uint32_t record[] = {1, 1, 1, 0, 0};  // its hash is wrong
  const std::string name(reinterpret_cast<const char*>(record), sizeof(record));
  const uintptr_t frame = frames.Intern({name, "file", 7});
  ScriptFrame found;
  ASSERT_TRUE(frames.Find(frame, &found));
  EXPECT_FALSE(frames.Find(frame + 16, &found));
}

TEST(ScriptFramesTest, ThreadsBringTheSame) {
  ScriptFrames frames(Map);
  constexpr uint32_t kLines = 2'000;
  std::vector<uintptr_t> seen[2];
  std::thread threads[2];
  std::atomic<uint32_t> there{0};
  for (int t = 0; t < 2; ++t) {
    threads[t] = std::thread([&, t] {
      for (uint32_t i = 1; i <= kLines; ++i) {
        there.fetch_add(1);
        while (there.load() < 2 * i) std::this_thread::yield();
        seen[t].push_back(frames.Intern({"f", "g", i}));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(seen[0], seen[1]);
  ScriptFrame found;
  for (uint32_t i = 1; i <= kLines; ++i) {
    ASSERT_TRUE(frames.Find(seen[0][i - 1], &found));
    EXPECT_EQ(found.line, i);
  }
}

int64_t Line(const std::vector<uint8_t>& table, uint64_t unit) {
  return python::LineAt([&](size_t i) { return table[i]; }, table.size(), unit, 100);
}

// An entry: 1 << 7 | kind << 3 | units - 1, then what its kind says.
TEST(LocationTableTest, EveryKindOfEntry) {
  const std::vector<uint8_t> table = {
      0x80 | 0 << 3 | 1,  0x12,              // two units, same line, short form
      0x80 | 11 << 3 | 0, 4,       9,        // one unit, a line further
      0x80 | 12 << 3 | 2, 4,       9,        // three, two lines further
      0x80 | 13 << 3 | 0, 40,                // one, +20 without columns
      0x80 | 14 << 3 | 0, 15,      0, 1, 1,  // one, -7, the long form
      0x80 | 15 << 3 | 0,                    // one without a line
      0x80 | 13 << 3 | 7, 64 | 16, 3,        // eight, by a number of two bytes: 16 + 3 * 64, +104
  };
  const int64_t lines[] = {100, 100, 101, 103, 103, 103, 123, 116, 0, 220, 220};
  for (uint64_t unit = 0; unit < std::size(lines); ++unit)
    EXPECT_EQ(Line(table, unit), lines[unit]) << unit;
  EXPECT_EQ(Line(table, 16), 220);
  EXPECT_EQ(Line(table, 17), 0);
}

TEST(LocationTableTest, BrokenTables) {
  EXPECT_EQ(Line({}, 0), 0);
  EXPECT_EQ(Line({0x12, 0x80}, 0), 0);
  EXPECT_EQ(
      Line({0x80 | 13 << 3, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f}, 5),
      0);
}

}  // namespace
}  // namespace strata
