// Frames of a Python that is none, 3.12 where nothing else is said: structures that lead nowhere
// end a walk, and lose nothing.
#include "profile/python/python_frames.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "os/confinement.h"

namespace {
uintptr_t g_thread[16];
int g_ending = 0;
}  // namespace

extern "C" {
extern unsigned long Py_Version;  // Python's own is const
unsigned long Py_Version = 0;
char PyCode_Type[1];
char PyUnicode_Type[1];
char PyBytes_Type[1];
void* PyGILState_GetThisThreadState() { return g_thread; }
int Py_IsFinalizing() { return g_ending; }
}

namespace strata {
namespace {

void* Map(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

// Of each at most what python_layout.h names.
struct Frame {
  uintptr_t code;
  uintptr_t previous;
  uintptr_t unused[5];
  uintptr_t instruction;
  uint8_t more[6];
  uint8_t owner;
};

class PythonFramesTest : public testing::Test {
 protected:
  PythonFramesTest() {
    FindInheritedConfinement();
    g_ending = 0;
    Py_Version = 0x030c01f0;
    g_thread[7] = reinterpret_cast<uintptr_t>(loop_);
    loop_[0] = reinterpret_cast<uintptr_t>(&frame_);
  }
  size_t Walk() {
    const uintptr_t frames[] = {0x1000, 0x2000, 0x3000};
    const uintptr_t places[] = {1, 2, UINTPTR_MAX};
    return WithPythonFrames(frames, places, 3, ScriptLines::kCurrent, names_, out_, 8);
  }
  void ExpectTheWalkItself() {
    ASSERT_EQ(Walk(), 3u);
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(out_[i], 0x1000 * (i + 1));
  }

  ScriptFrames names_{Map};
  uintptr_t loop_[2] = {};
  Frame frame_ = {};
  uintptr_t out_[8];
};

TEST_F(PythonFramesTest, FramesInACircle) {
  ASSERT_TRUE(RunsPython());
  frame_.owner = 3;
  frame_.previous = reinterpret_cast<uintptr_t>(&frame_);
  loop_[1] = reinterpret_cast<uintptr_t>(loop_);
  ExpectTheWalkItself();
}

TEST_F(PythonFramesTest, NoMemoryAndNoCode) {
  for (const uintptr_t nowhere :
       {uintptr_t{0}, uintptr_t{16}, UINTPTR_MAX - 8, reinterpret_cast<uintptr_t>(g_thread)}) {
    frame_.code = nowhere;
    ExpectTheWalkItself();
    loop_[0] = nowhere;
    ExpectTheWalkItself();
    loop_[0] = reinterpret_cast<uintptr_t>(&frame_);
  }
}

// A code object of a function "f" with a character that is none, at line 7 of "a.p".
class Code {
 public:
  Code() {
    memcpy(file.text, "a.p", 3);
    name.text[4] = 'f';
    name.text[5] = 0xffffffff;
    Put(8, PyCode_Type);
    Put(112, &file);
    Put(128, &name);
    const int32_t line = 7;
    memcpy(bytes_ + 68, &line, sizeof(line));
  }
  uintptr_t address() const { return reinterpret_cast<uintptr_t>(bytes_); }

  // ASCII lies behind 40 bytes, all other text behind 56.
  struct String {
    uintptr_t unused, type, length, hash, state;
    uint32_t text[6];
  };
  String file = {0, reinterpret_cast<uintptr_t>(PyUnicode_Type), 3, 0, 0x64, {}};
  String name = {0, reinterpret_cast<uintptr_t>(PyUnicode_Type), 2, 0, 0x30, {}};

 private:
  void Put(size_t at, const void* value) { memcpy(bytes_ + at, &value, sizeof(value)); }

  alignas(8) char bytes_[256] = {};
};

TEST_F(PythonFramesTest, NamesAreText) {
  Code code;
  frame_.code = code.address();
  ASSERT_EQ(Walk(), 3u);
  ScriptFrame found;
  ASSERT_TRUE(names_.Find(out_[1], &found));
  EXPECT_EQ(found.name, "f\xef\xbf\xbd");
  EXPECT_EQ(found.file, "a.p");
  EXPECT_EQ(found.line, 7u);
  code.file.text[0] |= 0x80;
  ExpectTheWalkItself();
  code.file.text[0] &= 0x7f;
  g_ending = 1;
  ExpectTheWalkItself();
}

// From 3.13 on only the frame outside of all that a loop runs lies on the C stack: it is looked for
// behind more frames than there is room for. From 3.14 on a frame's code has marks.
TEST_F(PythonFramesTest, DeeperThanThereIsRoomFor) {
  const Code code;
  struct LaterFrame : Frame {
    uint8_t more_of_3_14[8];
  };
  static LaterFrame frames[300];
  for (const unsigned long version : {0x030d00f0UL, 0x030e00f0UL}) {
    Py_Version = version;
    const size_t owner = version == 0x030d00f0UL ? 70 : 74;
    for (LaterFrame& f : frames) {
      f = {};
      f.code = code.address() | (version == 0x030d00f0UL ? 0 : 1);
      f.previous = reinterpret_cast<uintptr_t>(&f + 1);
    }
    reinterpret_cast<uint8_t*>(&frames[299])[owner] = 3;
    frames[299].previous = 0;
    g_thread[9] = reinterpret_cast<uintptr_t>(&frames[0]);
    ASSERT_EQ(Walk(), 8u);
    EXPECT_EQ(out_[0], 0x1000u);
    ScriptFrame found;
    for (size_t i = 1; i < 8; ++i) {
      ASSERT_TRUE(names_.Find(out_[i], &found));
      EXPECT_EQ(found.line, 7u);
    }
    frames[299].previous = reinterpret_cast<uintptr_t>(&frames[0]);  // a circle without an end
    reinterpret_cast<uint8_t*>(&frames[299])[owner] = 0;
    ExpectTheWalkItself();
  }
}

}  // namespace
}  // namespace strata
