// The walk over stacks made by hand, and the reader below it: pages are asked about before they are
// read, remembered, and forgotten when the stack is another one; wrong tables lead nowhere.
#include "profile/unwind/frame_walker.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "../os/looked.h"
#include "fake_process.h"
#include "os/readable.h"

namespace strata::test {
namespace {

constexpr uintptr_t kPage = 4096;

// Readable pages with unreadable ones before and behind.
class Pages {
 public:
  explicit Pages(size_t n) : n_(n) {
    void* p = mmap(nullptr, (n + 2) * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(p, MAP_FAILED);
    base_ = reinterpret_cast<uintptr_t>(p);
    EXPECT_EQ(mprotect(reinterpret_cast<void*>(begin()), n * kPage, PROT_READ | PROT_WRITE), 0);
  }
  ~Pages() { munmap(reinterpret_cast<void*>(base_), (n_ + 2) * kPage); }
  uintptr_t begin() const { return base_ + kPage; }
  uintptr_t end() const { return begin() + n_ * kPage; }
  uintptr_t& operator[](uintptr_t address) { return *reinterpret_cast<uintptr_t*>(address); }

 private:
  size_t n_;
  uintptr_t base_;
};

int g_asked = 0;
bool CountAndAsk(uintptr_t address) {
  ++g_asked;
  return IsReadable(address);
}

TEST(Readable, TellsPagesApart) {
  Pages pages(1);
  errno = 77;
  EXPECT_TRUE(IsReadable(pages.begin()));
  EXPECT_TRUE(IsReadable(pages.end() - 8));
  EXPECT_FALSE(IsReadable(pages.begin() - 8));
  EXPECT_FALSE(IsReadable(pages.end()));
  EXPECT_FALSE(IsReadable(0));
  EXPECT_FALSE(IsReadable(0xffff800000000000));
  EXPECT_EQ(errno, 77);
}

TEST(StackReader, ReadsWhatThereIs) {
  Pages pages(3);
  pages[pages.begin()] = 5;
  pages[pages.end() - 8] = 6;
  StackReader reader(KnownPages{}, pages.begin() + 64);
  uintptr_t word = 0;
  EXPECT_TRUE(reader.Load(pages.begin(), &word));
  EXPECT_EQ(word, 5u);
  EXPECT_TRUE(reader.Load(pages.end() - 8, &word));
  EXPECT_EQ(word, 6u);
  EXPECT_FALSE(reader.Load(pages.end(), &word));
  EXPECT_FALSE(reader.Load(pages.begin() - 8, &word));
  EXPECT_FALSE(reader.Load(pages.begin() + 4, &word));  // no multiple of 8
  EXPECT_FALSE(reader.Load(0, &word));
  EXPECT_FALSE(reader.Load(UINTPTR_MAX - 7, &word));
}

TEST(StackReader, AsksOnceAPage) {
  Pages pages(8);
  uintptr_t word;
  KnownPages known;
  g_asked = 0;
  {
    StackReader reader(known, pages.begin(), CountAndAsk);
    for (uintptr_t at = pages.begin(); at < pages.begin() + 5 * kPage; at += 8)
      ASSERT_TRUE(reader.Load(at, &word));
    reader.Confirm();
    known = reader.known();
  }
  EXPECT_EQ(g_asked, 4);  // the page of the stack pointer needs no question
  EXPECT_EQ(known.begin(), pages.begin());
  EXPECT_EQ(known.end(), pages.begin() + 5 * kPage);
  StackReader again(known, pages.begin() + 100, CountAndAsk);
  EXPECT_TRUE(again.Load(pages.begin() + 5 * kPage - 8, &word));
  EXPECT_EQ(g_asked, 4);
}

TEST(StackReader, FollowsAStackThatGrewDown) {
  Pages pages(8);
  g_asked = 0;
  const KnownPages known = KnownPages::Of(pages.begin() + 4 * kPage, pages.end());
  StackReader reader(known, pages.begin() + kPage + 8, CountAndAsk);
  EXPECT_EQ(g_asked, 2);
  EXPECT_EQ(reader.known().begin(), pages.begin() + kPage);
  EXPECT_EQ(reader.known().end(), pages.end());
}

TEST(StackReader, ForgetsAnotherStack) {
  Pages one(4);
  Pages two(2);
  const KnownPages known = KnownPages::Of(one.begin(), one.end());
  StackReader reader(known, two.begin() + 8);
  EXPECT_EQ(reader.known().begin(), two.begin());
  EXPECT_EQ(reader.known().end(), two.begin() + kPage);
}

// A walk led astray leaves nothing behind that a later one would trust.
TEST(StackReader, KeepsOnlyWhatWasConfirmed) {
  Pages pages(6);
  Pages far(1);
  uintptr_t word;
  StackReader reader(KnownPages{}, pages.begin());
  EXPECT_TRUE(reader.Load(pages.begin() + kPage, &word));
  reader.Confirm();
  EXPECT_TRUE(reader.Load(pages.begin() + 4 * kPage, &word));
  EXPECT_EQ(reader.known().end(), pages.begin() + 2 * kPage);
  EXPECT_TRUE(reader.Load(far.begin(), &word));
  reader.Confirm();
  EXPECT_EQ(reader.known().begin(), pages.begin());
  EXPECT_EQ(reader.known().end(), pages.begin() + 2 * kPage);
}

TEST(StackReader, StopsAsking) {
  Pages pages(400);
  uintptr_t word;
  g_asked = 0;
  StackReader reader(KnownPages{}, pages.begin(), CountAndAsk);
  bool all = true;
  for (uintptr_t at = pages.begin(); at < pages.end(); at += kPage) all &= reader.Load(at, &word);
  EXPECT_FALSE(all);
  EXPECT_LE(g_asked, 256);
}

void* Map(size_t bytes) {
  return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
void Unmap(void* p, size_t bytes) { munmap(p, bytes); }

constexpr uintptr_t kBase = 0x7f0000000000;
constexpr uintptr_t kCode = kBase + kImageCode;

// One function at each multiple of 64, with the rules of its kind.
enum Function : uintptr_t {
  kLeaf,       // CFA = rsp + 8
  kFrame,      // CFA = rsp + 48, rbp at CFA - 16
  kPointer,    // CFA = rbp + 16, rbp at CFA - 16
  kRealigned,  // CFA = [rbp - 8], rbp at rbp
  kSignal,     // a signal's return
  kStart,      // the outermost
  kStrange     // nothing to go by
};

class FrameWalkerTest : public testing::Test {
 protected:
  void SetUp() override {
    FrameBytes frames(kBase + kImageFrames);
    const uint32_t common = frames.Common();
    const uint32_t signal = frames.Common(kUsualStart, "zRS", {0x1b});
    const auto add = [&](Function f, uint32_t c, const Bytes& program) {
      frames.Frame(c, kCode + f * 64, 64, program);
    };
    add(kLeaf, common, {});
    add(kFrame, common, {0x0e, 48, 0x86, 2});
    add(kPointer, common, {0x0c, 6, 16, 0x86, 2});
    add(kRealigned, common, {0x0f, 3, 0x76, 0x78, 6, 0x10, 6, 2, 0x76, 0});
    add(kSignal, signal, {});
    add(kStart, common, {0x07, 16});
    add(kStrange, common, {0x3f});
    frames.End();
    process_.Open(kBase, 7, 16, 1);
    process_.image(kBase) = MakeImage(kBase, size_t{7} * 64, frames);
    ASSERT_TRUE(tables_.Refresh(Reading(process_.Maps()), process_));
  }

  static uintptr_t In(Function f) { return kCode + f * 64 + 10; }

  std::vector<uintptr_t> Walk(FrameRegisters at, size_t max = 64, CodeRange self = {}) {
    const UnwindTables::Pin pin(tables_);
    StackReader reader(KnownPages{}, at.sp);
    std::vector<uintptr_t> out(max);
    WalkPosition walk(at);
    end_ = WalkFrames(*pin.index(), walk, self, reader, out.data(), max);
    out.resize(walk.count);
    return out;
  }

  FakeProcess process_;
  UnwindTables tables_{TableMemory{Map, Unmap}};
  Pages stack_{4};
  WalkEnd end_ = WalkEnd::kFull;
};

TEST_F(FrameWalkerTest, EveryKindOfFrame) {
  uintptr_t sp = stack_.begin() + 256;
  const FrameRegisters at{In(kLeaf), sp, 0};
  stack_[sp] = In(kFrame);  // kLeaf returns into kFrame
  sp += 8;
  const uintptr_t bp = sp + 48 + 400;  // of kPointer, saved by kFrame
  stack_[sp + 48 - 16] = bp;
  stack_[sp + 48 - 8] = In(kPointer);
  const uintptr_t outer_bp = bp + 800;  // of kRealigned, saved by kPointer
  stack_[bp] = outer_bp;
  stack_[bp + 8] = In(kRealigned);
  const uintptr_t cfa = outer_bp + 200;
  stack_[outer_bp - 8] = cfa;
  stack_[outer_bp] = 0;
  stack_[cfa - 8] = In(kStart);
  EXPECT_EQ(Walk(at),
            (std::vector<uintptr_t>{In(kFrame), In(kPointer), In(kRealigned), In(kStart)}));
  EXPECT_EQ(end_, WalkEnd::kOutermost);
  EXPECT_EQ(Walk(at, 2), (std::vector<uintptr_t>{In(kFrame), In(kPointer)}));
  EXPECT_EQ(end_, WalkEnd::kFull);
  // Frames of ours are left out, as long as they come first.
  EXPECT_EQ(Walk(at, 2, {kCode + kFrame * 64, kCode + (kPointer + 1) * 64}),
            (std::vector<uintptr_t>{In(kRealigned), In(kStart)}));
}

TEST_F(FrameWalkerTest, ThroughASignalToAnotherStack) {
  Pages other(2);
  const uintptr_t sp = stack_.begin() + 64;
  const uintptr_t interrupted = other.begin() + 512;
  stack_[sp] = In(kSignal);  // the handler returns to the kernel's code, whose frame lies above
  stack_[sp + 8 + 120] = 0x1234;
  stack_[sp + 8 + 160] = interrupted;
  stack_[sp + 8 + 168] = kCode + kLeaf * 64;  // interrupted at the very first instruction
  other[interrupted] = In(kStart);
  EXPECT_EQ(Walk({In(kLeaf), sp, 0}),
            (std::vector<uintptr_t>{In(kSignal), kCode + kLeaf * 64, In(kStart)}));
  EXPECT_EQ(end_, WalkEnd::kOutermost);
}

TEST_F(FrameWalkerTest, EndsWhereNothingIsKnown) {
  const uintptr_t sp = stack_.begin() + 64;
  stack_[sp] = In(kStrange);
  EXPECT_EQ(Walk({In(kLeaf), sp, 0}), (std::vector<uintptr_t>{In(kStrange)}));
  EXPECT_EQ(end_, WalkEnd::kNoRule);
  stack_[sp] = 0x4242424242;
  EXPECT_EQ(Walk({In(kLeaf), sp, 0}), (std::vector<uintptr_t>{0x4242424242}));
  EXPECT_EQ(end_, WalkEnd::kUnknownCode);
  stack_[sp] = 0;
  EXPECT_TRUE(Walk({In(kLeaf), sp, 0}).empty());
  EXPECT_EQ(end_, WalkEnd::kOutermost);
}

// The rules belong to other code than the stack does: no read outside of it, and an end.
TEST_F(FrameWalkerTest, WrongTablesLeadNowhere) {
  const uintptr_t top = stack_.end() - 8;
  EXPECT_TRUE(Walk({In(kFrame), top, 0}).empty());  // would read behind the stack
  EXPECT_EQ(end_, WalkEnd::kUnreadable);
  EXPECT_TRUE(Walk({In(kPointer), top, 0xdead0000beef0000}).empty());
  EXPECT_EQ(end_, WalkEnd::kUnreadable);
  EXPECT_TRUE(Walk({In(kPointer), top, stack_.begin() + 3}).empty());
  EXPECT_EQ(end_, WalkEnd::kUnreadable);
  EXPECT_TRUE(Walk({In(kRealigned), top, 8}).empty());
  EXPECT_TRUE(Walk({In(kSignal), top, 0}).empty());
  EXPECT_EQ(end_, WalkEnd::kUnreadable);
  // A frame that is its own caller: bounded by the room.
  const uintptr_t bp = stack_.begin() + 128;
  stack_[bp] = bp;
  stack_[bp + 8] = In(kPointer);
  EXPECT_EQ(Walk({In(kPointer), stack_.begin() + 64, bp}, 40).size(), 40u);
  EXPECT_EQ(end_, WalkEnd::kFull);
}

// Without tables: this function's own frame pointers would do, if it had any; made by hand.
TEST_F(FrameWalkerTest, FramePointers) {
  Pages code(1);
  const uintptr_t call = code.begin() + 100;
  *reinterpret_cast<uint8_t*>(call) = 0xe8;
  const uintptr_t indirect = code.begin() + 200;
  *reinterpret_cast<uint8_t*>(indirect) = 0xff;
  *reinterpret_cast<uint8_t*>(indirect + 1) = 0xd0;
  const uintptr_t sp = stack_.begin() + 64;
  stack_[sp + 64] = sp + 256;
  stack_[sp + 72] = call + 5;
  stack_[sp + 256] = sp + 512;
  stack_[sp + 264] = indirect + 2;
  stack_[sp + 512] = sp + 600;
  stack_[sp + 520] = code.begin() + 1000;  // no call before it
  uintptr_t out[8];
  StackReader reader(KnownPages{}, sp);
  ASSERT_EQ(WalkFramePointers({0, sp, sp + 64}, {}, reader, out, 8), 2u);
  EXPECT_EQ(out[0], call + 5);
  EXPECT_EQ(out[1], indirect + 2);
  EXPECT_EQ(WalkFramePointers({0, sp, sp - 64}, {}, reader, out, 8), 0u);   // inwards
  EXPECT_EQ(WalkFramePointers({0, sp, 0x123456}, {}, reader, out, 8), 0u);  // anything
}

}  // namespace
}  // namespace strata::test
