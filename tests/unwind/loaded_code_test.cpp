// Rules out of a mapped file's own index, and what an index that lies leads to.
#include "profile/unwind/loaded_code.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "eh_frame_bytes.h"
#include "os/confinement.h"
#include "os/libc_symbol.h"
#include "profile/stack_walk.h"
#include "profile/unwind/unwind_index.h"
#include "profile/unwind/walk_step.h"

namespace strata::test {
namespace {

constexpr size_t kHeader = 12;  // of the index: four encodings, where the frames lie, how many rows

// An index and the frames behind it, in one piece of memory as in a file.
class File {
 public:
  static constexpr size_t kFunctions = 5;
  static constexpr uintptr_t kSize = 64;

  File() {
    const size_t index_size = kHeader + kFunctions * 8;
    memory_.resize(index_size + 1024);
    code_ = begin() + 0x10000;
    FrameBytes frames(begin() + index_size);
    const uint32_t common = frames.Common();
    Put(0, uint32_t{0x3b031b01});
    Put(4, static_cast<int32_t>(index_size - 4));  // relative to the field itself
    Put(8, uint32_t{kFunctions});
    for (size_t i = 0; i < kFunctions; ++i) {
      // CFA = rsp + 8, and 16 + 8 i from the fifth byte on.
      const uint32_t entry = frames.Frame(common, Function(i), kSize - 8,
                                          {0x44, 0x0e, static_cast<uint8_t>(16 + 8 * i)});
      Put(kHeader + 8 * i, static_cast<int32_t>(Function(i) - begin()));
      Put(kHeader + 8 * i + 4, static_cast<int32_t>(index_size + entry));
    }
    frames.End();
    const EhFrame section = frames.section();
    memcpy(memory_.data() + index_size, section.bytes, section.size);
  }

  uintptr_t begin() const { return reinterpret_cast<uintptr_t>(memory_.data()); }
  uintptr_t Function(size_t i) const { return code_ + i * kSize; }
  FrameIndex index() const { return {memory_.data(), memory_.size()}; }
  UnwindRule At(uintptr_t pc) const { return RuleByIndex(index(), pc); }

  template <class T>
  void Put(size_t at, T value) {
    memcpy(memory_.data() + at, &value, sizeof(value));
  }

 private:
  Bytes memory_;
  uintptr_t code_ = 0;
};

TEST(LoadedCode, FindsTheRuleOfEachInstruction) {
  const File file;
  for (size_t i = 0; i < File::kFunctions; ++i) {
    const uintptr_t begin = file.Function(i);
    EXPECT_EQ(file.At(begin), UnwindRule::Cfa(RuleKind::kFromSp, 8));
    EXPECT_EQ(file.At(begin + 3), UnwindRule::Cfa(RuleKind::kFromSp, 8));
    const UnwindRule pushed = UnwindRule::Cfa(RuleKind::kFromSp, static_cast<int64_t>(16 + 8 * i));
    EXPECT_EQ(file.At(begin + 4), pushed);
    EXPECT_EQ(file.At(begin + File::kSize - 9), pushed);
    EXPECT_EQ(file.At(begin + File::kSize - 8).kind(), RuleKind::kNone);  // between two functions
  }
  EXPECT_EQ(file.At(file.Function(0) - 1).kind(), RuleKind::kNone);
  EXPECT_EQ(file.At(file.Function(File::kFunctions)).kind(), RuleKind::kNone);
}

TEST(LoadedCode, BelievesNoIndexThatMakesNoSense) {
  const struct {
    size_t at;
    uint32_t word;
  } kLies[] = {
      {0, 0x3b031b02},          // another version
      {0, 0x3b0b1b01},          // rows counted in another way
      {0, 0x33031b01},          // rows of two bytes
      {0, 0x3b03ff01},          // no frames
      {4, 0x7fffffff},          // frames far away
      {4, 0x80000000},          // frames in front of the index
      {8, 0},                   // no row
      {8, 0xffffffff},          // more rows than bytes
      {kHeader + 4, 0x7ffffff}  // an entry behind the end
  };
  for (const auto& lie : kLies) {
    File file;
    ASSERT_NE(file.At(file.Function(0)).kind(), RuleKind::kNone);
    file.Put(lie.at, lie.word);
    EXPECT_EQ(file.At(file.Function(0)).kind(), RuleKind::kNone) << lie.at << ' ' << lie.word;
  }
  const File file;
  for (size_t size = 0; size < kHeader + 8; ++size) {
    EXPECT_EQ(RuleByIndex({file.index().bytes, size}, file.Function(0)).kind(), RuleKind::kNone);
  }
}

TEST(LoadedCode, KnowsThisProgramAndNothingThatIsNotLoaded) {
  FrameIndex index;
  const auto here = reinterpret_cast<uintptr_t>(&FindFrameIndex);
  ASSERT_TRUE(FindFrameIndex(here, &index));
  EXPECT_NE(LoadedCode().Find(here).rule.kind(), RuleKind::kNone);
  EXPECT_FALSE(LoadedCode().Find(reinterpret_cast<uintptr_t>(&index)).in_module);
  EXPECT_FALSE(LoadedCode().Find(0).in_module);
  EXPECT_FALSE(LoadedCode().Find(UINTPTR_MAX).in_module);
}

struct Walk {
  static constexpr size_t kMost = 64;
  uintptr_t frames[kMost];
  uintptr_t places[kMost];
  size_t count = 0;
};

STRATA_NOINLINE void WalkTwice(Walk& from_here, Walk& from_call) {
  const WalkStart start = StartAtCall();
  from_here.count = WalkStack(from_here.frames, Walk::kMost, from_here.places);
  from_call.count = WalkStack(from_call.frames, Walk::kMost, from_call.places, &start);
}

TEST(StackWalk, FromACallHasAllButTheFunctionThatWasCalled) {
  Walk here;
  Walk call;
  WalkTwice(here, call);
  ASSERT_GT(call.count, 2u);
  ASSERT_EQ(call.count + 1, here.count);
  for (size_t i = 0; i < call.count; ++i) {
    EXPECT_EQ(call.frames[i], here.frames[i + 1]) << i;
    EXPECT_EQ(call.places[i], here.places[i + 1]) << i;
  }
}

TEST(StackWalk, KeepsAReturnAddressInCodeThatNobodyKnows) {
  static unsigned char made_at_run_time[16];
  Walk walk;
  WalkStart start = StartAtCall();
  start.at.pc = reinterpret_cast<uintptr_t>(&made_at_run_time[8]);
  start.at.bp = 0;  // leads nowhere
  start.returns = true;
  walk.count = WalkStack(walk.frames, Walk::kMost, walk.places, &start);
  ASSERT_EQ(walk.count, 1u);
  EXPECT_EQ(walk.frames[0], start.at.pc);
}

// The stack leads through this program and libc: neither's table waits for the other's.
TEST(StackWalk, MeetsEachFileOnItsWay) {
  if (!CanFindLoadedCode()) GTEST_SKIP() << "all files have tables from the first on";
  FindInheritedConfinement();  // else a walk stays on the page that it begins on
  ASSERT_TRUE(RefreshUnwindTables(TablesFor::kCodeMet));
  Walk walk;
  const auto walks = [&walk](uint32_t n) {
    for (uint32_t i = 0; i < n; ++i) walk.count = WalkStack(walk.frames, Walk::kMost);
  };
  walks(UnwindIndex::kMeetings - 1);
  EXPECT_FALSE(UnwindTablesStale());
  walks(1);
  EXPECT_TRUE(UnwindTablesStale());
  ASSERT_TRUE(RefreshUnwindTables(TablesFor::kCodeMet));
  const uint32_t published = UnwindTablesPublished();
  const size_t depth = walk.count;
  walks(UnwindIndex::kMeetings);
  EXPECT_EQ(walk.count, depth);
  EXPECT_FALSE(UnwindTablesStale());
  ASSERT_TRUE(RefreshUnwindTables(TablesFor::kCodeMet));
  EXPECT_EQ(UnwindTablesPublished(), published);
}

TEST(LibcSymbol, FindsWhatItExportsAndNothingElse) {
  for (const char* name : {"_dl_find_object", "getauxval", "gnu_get_libc_version"}) {
    EXPECT_EQ(FindInLibc(name), dlsym(RTLD_DEFAULT, name)) << name;
  }
  EXPECT_EQ(FindInLibc("_dl_find_objects"), nullptr);
  EXPECT_EQ(FindInLibc(""), nullptr);
}

}  // namespace
}  // namespace strata::test
