// Call frame information made by hand: what each instruction does to the rules, encodings and
// augmentations, and sections that are cut short, wrong or hostile.
#include "profile/unwind/eh_frame.h"

#include <gtest/gtest.h>

#include <random>

#include "eh_frame_bytes.h"

namespace strata::test {
namespace {

constexpr uintptr_t kSection = 0x500000;
constexpr uintptr_t kCode = 0x400000;

using Rows = std::vector<std::pair<size_t, UnwindRule>>;

class Collector final : public RuleSink {
 public:
  bool Add(uintptr_t pc, UnwindRule rule) override {
    if (rows.size() == limit) return false;
    rows.emplace_back(pc - kCode, rule);
    return true;
  }
  Rows rows;
  size_t limit = SIZE_MAX;
};

UnwindRule Rsp(int64_t n) { return UnwindRule::Cfa(RuleKind::kFromSp, n); }
UnwindRule Rbp(int64_t n) { return UnwindRule::Cfa(RuleKind::kFromFp, n); }
UnwindRule None() { return UnwindRule(); }

// The rows of one entry of 100 bytes with this program.
Rows RowsOf(const Bytes& program, const Bytes& start = kUsualStart,
            const std::string& augmentation = "zR", const Bytes& data = {0x1b}) {
  FrameBytes bytes(kSection);
  const uint32_t common = bytes.Common(start, augmentation, data);
  const uint32_t offset = bytes.Frame(common, kCode, 100, program);
  EhFrameReader reader(bytes.section());
  FrameEntry entry;
  Collector rows;
  EXPECT_TRUE(reader.Load(offset, &entry));
  EXPECT_EQ(entry.begin, kCode);
  EXPECT_EQ(entry.end, kCode + 100);
  EXPECT_TRUE(reader.Run(entry, rows));
  return rows.rows;
}
UnwindRule LastOf(const Bytes& program) { return RowsOf(program).back().second; }

TEST(UnwindRule, HoldsWhatFits) {
  EXPECT_EQ(Rsp(8).cfa(), 8u);
  EXPECT_EQ(Rsp((256 << 10) - 8).cfa(), (256u << 10) - 8);
  EXPECT_EQ(Rsp(256 << 10), None());
  EXPECT_EQ(Rsp(12), None());
  EXPECT_EQ(Rsp(0), None());
  EXPECT_EQ(Rsp(-8), None());
  const UnwindRule load = UnwindRule::Cfa(RuleKind::kFromFpLoad, -16);
  EXPECT_EQ(load.signed_cfa(), -16);
  EXPECT_EQ(load.WithFpAtFp().kind(), RuleKind::kFromFpLoad);
  EXPECT_TRUE(load.WithFpAtFp().fp_at_fp());
  EXPECT_EQ(Rbp(16).WithFpAt(16).fp_below_cfa(), 16u);
  EXPECT_TRUE(Rbp(16).WithFpAt(12).fp_lost());
  EXPECT_TRUE(Rbp(16).WithFpAt(-8).fp_lost());
  EXPECT_TRUE(Rbp(16).WithFpAt(1 << 20).fp_lost());
  EXPECT_TRUE(Rbp(16).fp_same());
  EXPECT_EQ(UnwindRule::FromBits(Rbp(16).WithFpAt(48).bits()), Rbp(16).WithFpAt(48));
  EXPECT_LT(Rbp((256 << 10) - 8).WithFpLost().bits(), 1u << UnwindRule::kBits);
}

TEST(EhFrame, UsualFunctions) {
  EXPECT_EQ(RowsOf({}), (Rows{{0, Rsp(8)}}));
  // push rbp; mov rbp, rsp; …; leave
  EXPECT_EQ(RowsOf({0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x02, 80, 0x0c, 7, 8}),
            (Rows{{0, Rsp(8)},
                  {1, Rsp(16).WithFpAt(16)},
                  {4, Rbp(16).WithFpAt(16)},
                  {84, Rsp(8).WithFpAt(16)}}));
  // An early return: remember, pop, restore.
  EXPECT_EQ(RowsOf({0x44, 0x0e, 48, 0x50, 0x0a, 0x0e, 8, 0x41, 0x0b}),
            (Rows{{0, Rsp(8)}, {4, Rsp(48)}, {20, Rsp(8)}, {21, Rsp(48)}}));
}

TEST(EhFrame, EveryInstruction) {
  EXPECT_EQ(LastOf({0x03, 40, 0, 0x0e, 24}), Rsp(24));            // advance_loc2
  EXPECT_EQ(LastOf({0x04, 40, 0, 0, 0, 0x0e, 32}), Rsp(32));      // advance_loc4
  EXPECT_EQ(LastOf({0x05, 6, 3}), Rsp(8).WithFpAt(24));           // offset_extended
  EXPECT_EQ(LastOf({0x86, 2, 0xc6}), Rsp(8));                     // restore
  EXPECT_EQ(LastOf({0x86, 2, 0x06, 6}), Rsp(8));                  // restore_extended
  EXPECT_TRUE(LastOf({0x07, 6}).fp_lost());                       // undefined
  EXPECT_EQ(LastOf({0x86, 2, 0x08, 6}), Rsp(8));                  // same_value
  EXPECT_TRUE(LastOf({0x09, 6, 3}).fp_lost());                    // register
  EXPECT_EQ(LastOf({0x07, 16}), UnwindRule::Of(RuleKind::kEnd));  // no return address
  EXPECT_EQ(LastOf({0x09, 16, 3}), None());                       // it is in rbx
  EXPECT_EQ(LastOf({0x90, 2}), None());                           // it is elsewhere
  EXPECT_EQ(LastOf({0x0c, 3, 16}), None());                       // CFA from rbx
  EXPECT_EQ(LastOf({0x0f, 3, 0x76, 0x78, 0x06}), UnwindRule::Cfa(RuleKind::kFromFpLoad, -8));
  EXPECT_EQ(LastOf({0x0f, 3, 0x76, 0x78, 0x06, 0x10, 6, 2, 0x76, 0}),
            UnwindRule::Cfa(RuleKind::kFromFpLoad, -8).WithFpAtFp());
  EXPECT_EQ(LastOf({0x0f, 3, 0x77, 0x78, 0x06}), None());  // another expression
  EXPECT_EQ(LastOf({0x0f, 4, 0x76, 0x78, 0x06, 0x06}), None());
  EXPECT_EQ(LastOf({0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22}),
            UnwindRule::Of(RuleKind::kPlt));
  EXPECT_TRUE(LastOf({0x10, 6, 2, 0x77, 0}).fp_lost());  // expression
  EXPECT_EQ(LastOf({0x10, 7, 2, 0x77, 0}), None());      // rsp is not the CFA
  EXPECT_EQ(LastOf({0x11, 6, 2}), Rsp(8).WithFpAt(16));  // offset_extended_sf
  EXPECT_EQ(LastOf({0x12, 7, 0x7c}), Rsp(32));           // def_cfa_sf
  EXPECT_EQ(LastOf({0x13, 0x7d}), Rsp(24));              // def_cfa_offset_sf
  EXPECT_TRUE(LastOf({0x14, 6, 1}).fp_lost());           // val_offset
  EXPECT_TRUE(LastOf({0x15, 6, 1}).fp_lost());
  EXPECT_TRUE(LastOf({0x16, 6, 1, 0x30}).fp_lost());                  // val_expression
  EXPECT_EQ(LastOf({0x2e, 16, 0x0e, 16}), Rsp(16));                   // GNU_args_size
  EXPECT_EQ(LastOf({0x2f, 6, 2}).WithFpLost(), Rsp(8).WithFpLost());  // negative offset
  EXPECT_EQ(LastOf({0x3f}), None());                                  // unknown
  EXPECT_EQ(LastOf({0x0b}), None());                                  // nothing remembered
  EXPECT_EQ(LastOf(Bytes(40, 0x0a)), None());                         // too much remembered
}

TEST(EhFrame, AnUnfollowedProgramKeepsTheRowsBeforeIt) {
  EXPECT_EQ(RowsOf({0x44, 0x0e, 16, 0x44, 0x3f}), (Rows{{0, Rsp(8)}, {4, Rsp(16)}, {8, None()}}));
}

TEST(EhFrame, AdvancingPastTheEndStops) {
  EXPECT_EQ(RowsOf({0x04, 0xff, 0xff, 0xff, 0xff, 0x0e, 16}), (Rows{{0, Rsp(8)}}));
  EXPECT_EQ(RowsOf({0x02, 100, 0x0e, 16}), (Rows{{0, Rsp(8)}}));
}

TEST(EhFrame, Augmentations) {
  const Rows usual{{0, Rsp(8)}};
  EXPECT_EQ(RowsOf({}, kUsualStart, "zPLR", {0x9b, 1, 2, 3, 4, 0x1b, 0x1b}), usual);
  EXPECT_EQ(RowsOf({}, kUsualStart, "zRS", {0x1b}), (Rows{{0, UnwindRule::Of(RuleKind::kSignal)}}));
}

TEST(EhFrame, WhatACommonEntryMayNotBe) {
  const auto loads = [](FrameBytes& bytes, uint32_t common) {
    const uint32_t offset = bytes.Frame(common, kCode, 100, {});
    EhFrameReader reader(bytes.section());
    FrameEntry entry;
    return reader.Load(offset, &entry);
  };
  {
    FrameBytes good(kSection);
    EXPECT_TRUE(loads(good, good.Common()));
  }
  {
    FrameBytes version(kSection);
    EXPECT_FALSE(loads(version, version.Common(kUsualStart, "zR", {0x1b}, 9)));
  }
  {
    FrameBytes letters(kSection);
    EXPECT_FALSE(loads(letters, letters.Common(kUsualStart, "eh", {})));
  }
  {
    FrameBytes encoding(kSection);  // indirect, which nobody writes for code
    EXPECT_FALSE(loads(encoding, encoding.Common(kUsualStart, "zR", {0x9b})));
  }
  {
    FrameBytes omitted(kSection);
    EXPECT_FALSE(loads(omitted, omitted.Common(kUsualStart, "zR", {0xff})));
  }
  {
    FrameBytes frame_for_common(kSection);
    const uint32_t common = frame_for_common.Common();
    EXPECT_FALSE(loads(frame_for_common, frame_for_common.Frame(common, kCode, 100, {})));
  }
  {
    FrameBytes huge(kSection);
    EXPECT_FALSE(loads(huge, huge.Common(Bytes(5000, 0))));
  }
}

TEST(EhFrame, FindsEntriesUpToTheEnd) {
  FrameBytes bytes(kSection);
  const uint32_t common = bytes.Common();
  std::vector<uint32_t> offsets;
  offsets.reserve(5);
  for (uint32_t i = 0; i < 5; ++i)
    offsets.push_back(bytes.Frame(common, kCode + i * 0x100, 0x80, {}));
  bytes.End();
  bytes.Frame(common, kCode + 0x1000, 0x80, {});  // behind the end: not ours
  EhFrameReader reader(bytes.section());
  uint32_t offset;
  FrameEntry entry;
  for (uint32_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(reader.Next(&offset, &entry));
    EXPECT_EQ(offset, offsets[i]);
    EXPECT_EQ(entry.begin, kCode + i * 0x100);
  }
  EXPECT_FALSE(reader.Next(&offset, &entry));
}

TEST(EhFrame, NoMemoryIsSaid) {
  FrameBytes bytes(kSection);
  const uint32_t offset = bytes.Frame(bytes.Common(), kCode, 100, {0x44, 0x0e, 16, 0x44, 0x0e, 8});
  EhFrameReader reader(bytes.section());
  FrameEntry entry;
  ASSERT_TRUE(reader.Load(offset, &entry));
  Collector rows;
  rows.limit = 2;
  EXPECT_FALSE(reader.Run(entry, rows));
}

// Reads all there is to a section, which may be anything, and checks what comes out.
size_t ReadAll(const Bytes& bytes) {
  // Exactly as many bytes, so that AddressSanitizer sees a read past the end.
  const Bytes copy(bytes.begin(), bytes.end());
  EhFrameReader reader({copy.data(), copy.size(), kSection});
  uint32_t offset;
  FrameEntry entry;
  size_t found = 0;
  while (reader.Next(&offset, &entry)) {
    ++found;
    Collector rows;
    rows.limit = 10'000;
    reader.Run(entry, rows);
    uintptr_t before = entry.begin;
    for (const auto& [pc, rule] : rows.rows) {
      EXPECT_GE(pc + kCode, before);
      EXPECT_LT(pc + kCode, entry.end);
      before = pc + kCode;
    }
  }
  return found;
}

Bytes SomeSection() {
  FrameBytes bytes(kSection);
  const uint32_t plain = bytes.Common();
  const uint32_t rich = bytes.Common(kUsualStart, "zPLR", {0x9b, 1, 2, 3, 4, 0x1b, 0x1b});
  const uint32_t signal = bytes.Common(kUsualStart, "zRS", {0x1b});
  bytes.Frame(plain, kCode, 90, {0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x02, 80, 0x0c, 7, 8});
  bytes.Frame(rich, kCode + 100, 50, {0x44, 0x0e, 48, 0x50, 0x0a, 0x0e, 8, 0x41, 0x0b});
  bytes.Frame(signal, kCode + 200, 9, {0x0f, 4, 0x77, 0xa0, 1, 0x06});
  bytes.Frame(plain, kCode + 300, 70, {0x0f, 3, 0x76, 0x78, 6, 0x10, 6, 2, 0x76, 0, 0x2e, 16});
  bytes.End();
  return bytes.bytes();
}

TEST(EhFrameHostile, CutShortAnywhere) {
  const Bytes whole = SomeSection();
  EXPECT_EQ(ReadAll(whole), 4u);
  for (size_t n = 0; n < whole.size(); ++n) {
    EXPECT_LE(ReadAll(Bytes(whole.begin(), whole.begin() + static_cast<long>(n))), 4u) << n;
  }
}

TEST(EhFrameHostile, EachByteWrong) {
  const Bytes whole = SomeSection();
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const uint8_t wrong : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      Bytes bytes = whole;
      bytes[at] = wrong;
      ReadAll(bytes);
    }
  }
}

TEST(EhFrameHostile, RandomChanges) {
  std::mt19937 random(7);
  const Bytes whole = SomeSection();
  for (int round = 0; round < 3000; ++round) {
    Bytes bytes = whole;
    for (int i = 0; i < 8; ++i) bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
    ReadAll(bytes);
  }
}

}  // namespace
}  // namespace strata::test
