// Frames of a Python 3.12 that is none: structures that lead nowhere end a walk, and lose nothing.
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
extern const unsigned long Py_Version;
const unsigned long Py_Version = 0x030c01f0;
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

// A code object with names of one, two and four bytes a character, among them what is none.
TEST_F(PythonFramesTest, NamesAreText) {
  struct String {
    uintptr_t unused, type, length, hash, state;
    uint32_t text[6];
  };
  // Of 3.12: ASCII lies behind 40 bytes, all other text behind 56.
  String file = {0, reinterpret_cast<uintptr_t>(PyUnicode_Type), 3, 0, 0x64, {}};
  memcpy(file.text, "a.p", 3);
  String name = {0, reinterpret_cast<uintptr_t>(PyUnicode_Type), 2, 0, 0x30, {}};
  name.text[4] = 'f';
  name.text[5] = 0xffffffff;
  alignas(8) char code[256] = {};
  const auto put = [&](size_t at, const void* value) { memcpy(code + at, &value, sizeof(value)); };
  put(8, PyCode_Type);
  put(112, &file);
  put(128, &name);
  const int32_t line = 7;
  memcpy(code + 68, &line, sizeof(line));
  frame_.code = reinterpret_cast<uintptr_t>(code);
  ASSERT_EQ(Walk(), 3u);
  ScriptFrame found;
  ASSERT_TRUE(names_.Find(out_[1], &found));
  EXPECT_EQ(found.name, "f\xef\xbf\xbd");
  EXPECT_EQ(found.file, "a.p");
  EXPECT_EQ(found.line, 7u);
  file.text[0] |= 0x80;
  ExpectTheWalkItself();
  file.text[0] &= 0x7f;
  g_ending = 1;
  ExpectTheWalkItself();
}

}  // namespace
}  // namespace strata
