// Reading CPython's frames. See python_frames.h.
#include "profile/python/python_frames.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/units.h"
#include "os/readable.h"
#include "profile/python/location_table.h"
#include "profile/python/python_layout.h"

// Of CPython's C API; null in every other program.
extern "C" {
__attribute__((weak)) void* PyGILState_GetThisThreadState();
__attribute__((weak)) int Py_IsFinalizing();   // from 3.13 on
__attribute__((weak)) int _Py_IsFinalizing();  // NOLINT(bugprone-reserved-identifier): before
extern __attribute__((weak)) const unsigned long Py_Version;
extern __attribute__((weak)) char PyCode_Type[];
extern __attribute__((weak)) char PyUnicode_Type[];
extern __attribute__((weak)) char PyBytes_Type[];
}

namespace strata {
namespace {

using python::Entry;
using python::Layout;

constexpr size_t kMostFrames = 256;  // of one call of the interpreter's loop
// Frames looked at for the end of a loop, without their names: some ten nanoseconds each.
constexpr size_t kMostPassed = 4096;
constexpr size_t kLongestTable = size_t{1} << 20;  // of lines: some milliseconds

const Layout* FindLayout() {
  if (&Py_Version == nullptr || &PyGILState_GetThisThreadState == nullptr ||
      PyCode_Type == nullptr || PyUnicode_Type == nullptr || PyBytes_Type == nullptr)
    return nullptr;
  for (const Layout& layout : python::kLayouts) {
    if (Py_Version >> 16 == layout.version) return &layout;
  }
  return nullptr;
}

// While it ends, Python frees the frames of threads that still run.
bool IsEnding() {
  if (&Py_IsFinalizing != nullptr) return Py_IsFinalizing() != 0;
  return &_Py_IsFinalizing == nullptr || _Py_IsFinalizing() != 0;
}

// Reads what may not be what it seems. A page that could be read stays so while its owner is here.
class Reader {
 public:
  bool Copy(uintptr_t from, void* to, size_t n) {
    // Page 0 is that of fields of nothing, and what known_ holds before it knows any.
    if (from < kNativePageSize || from + n < from) return false;
    for (uintptr_t page = RoundDown(from, kNativePageSize); page < from + n;
         page += kNativePageSize) {
      if (!Knows(page)) return false;
    }
    memcpy(to, reinterpret_cast<const void*>(from), n);
    return true;
  }
  template <class T>
  T At(uintptr_t from) {
    T value{};
    ok_ = Copy(from, &value, sizeof(value)) && ok_;
    return value;
  }
  // How many of the bytes from `from` on lie on its page, and can be read.
  size_t LeftOnPage(uintptr_t from) {
    const uintptr_t page = RoundDown(from, kNativePageSize);
    return Knows(page) ? page + kNativePageSize - from : 0;
  }
  // Whether all that At read was there, since the last time it was asked.
  bool ok() {
    const bool ok = ok_;
    ok_ = true;
    return ok;
  }

 private:
  bool Knows(uintptr_t page) {
    for (const uintptr_t known : known_) {
      if (known == page) return true;
    }
    if (!IsReadable(page)) return false;
    known_[next_++ % kKnown] = page;
    return true;
  }

  static constexpr size_t kKnown = 16;
  uintptr_t known_[kKnown] = {};
  size_t next_ = 0;
  bool ok_ = true;
};

// The bytes of one object, in the order of their places: each page is asked for once.
class Bytes {
 public:
  Bytes(Reader& memory, uintptr_t from, size_t size) : memory_(memory), from_(from), size_(size) {}

  // 0 beyond the end, and where nothing can be read.
  uint8_t operator()(size_t i) {
    if (STRATA_UNLIKELY(i >= known_)) {
      if (i >= size_) return 0;
      const size_t left = memory_.LeftOnPage(from_ + i);
      if (left == 0) return 0;
      known_ = std::min(i + left, size_);
    }
    return *reinterpret_cast<const uint8_t*>(from_ + i);
  }

 private:
  Reader& memory_;
  uintptr_t from_;
  size_t size_;
  size_t known_ = 0;  // that many can be read
};

class Text {
 public:
  // Copies ASCII at once. False: it is none, or can't be read.
  bool AssignAscii(Reader& memory, uintptr_t from, size_t size) {
    if (!memory.Copy(from, bytes_, size)) return false;
    size_ = size;
    return std::none_of(bytes_, bytes_ + size, [](char c) { return (c & 0x80) != 0; });
  }
  // Appends a character, as UTF-8.
  void Append(uint32_t c) {
    const auto put = [this](uint32_t byte) { bytes_[size_++] = static_cast<char>(byte); };
    if (size_ + 4 > sizeof(bytes_)) return;
    // Surrogates are Python's marks for bytes that were no text.
    if ((c >= 0xd800 && c < 0xe000) || c > 0x10ffff) c = 0xfffd;
    if (c < 0x80) {
      put(c);
    } else if (c < 0x800) {
      put(0xc0 | c >> 6);
      put(0x80 | (c & 63));
    } else if (c < 0x10000) {
      put(0xe0 | c >> 12);
      put(0x80 | (c >> 6 & 63));
      put(0x80 | (c & 63));
    } else {
      put(0xf0 | c >> 18);
      put(0x80 | (c >> 12 & 63));
      put(0x80 | (c >> 6 & 63));
      put(0x80 | (c & 63));
    }
  }
  std::string_view view() const { return {bytes_, size_}; }

 private:
  char bytes_[ScriptFrames::kLongest];
  size_t size_ = 0;
};

class FrameReader {
 public:
  FrameReader(const Layout& layout, ScriptLines lines, ScriptFrames& names)
      : at_(layout), lines_(lines), names_(names) {}

  // What stands for the frame; 0: not to be read, or no room.
  uintptr_t Name(uintptr_t frame) {
    const auto code = memory_.At<uintptr_t>(frame + at_.code) & ~python::kReferenceMarks;
    const auto instruction = memory_.At<uintptr_t>(frame + at_.instruction);
    if (!memory_.ok() || !IsA(code, PyCode_Type)) return 0;
    Text name;
    Text file;
    if (!Read(memory_.At<uintptr_t>(code + at_.name), &name) ||
        !Read(memory_.At<uintptr_t>(code + at_.file), &file) || !memory_.ok())
      return 0;
    const bool current = lines_ == ScriptLines::kCurrent || !has_innermost_;
    has_innermost_ = true;
    const uint32_t line = current ? LineOf(code, instruction) : LineOfDef(code);
    return names_.Intern({name.view(), file.view(), line});
  }

  // The frames that run in the innermost loop at `*frame`, innermost first, and the place on the C
  // stack of what belongs to it; `*loop` and `*frame` go on to the loop outside.
  size_t ReadLoop(uintptr_t* loop, uintptr_t* frame, uintptr_t* place, uintptr_t* out, size_t max) {
    size_t n = 0;
    *place = *loop;
    for (size_t passed = 0; *frame != 0; ++passed) {
      const uintptr_t current = *frame;
      *frame = memory_.At<uintptr_t>(current + at_.previous);
      const auto owner = memory_.At<uint8_t>(current + at_.owner);
      const bool flag =
          at_.entry == Entry::kByFlag && memory_.At<uint8_t>(current + at_.entry_flag) != 0;
      if (!memory_.ok()) return Stop(loop, frame, n);
      if (at_.entry == Entry::kByRecord && owner >= python::kOwnedByCStack) {
        *place = current;
        break;
      }
      // Where only the frame outside of all these says where the loop lies.
      if (n == max && at_.loop == 0 && passed < kMostPassed) continue;
      const uintptr_t named = n < max ? Name(current) : 0;
      if (named == 0) return Stop(loop, frame, n);
      out[n++] = named;
      if (flag) break;
    }
    if (at_.loop != 0) {
      *loop = memory_.At<uintptr_t>(*loop + at_.loop_previous);
      if (!memory_.ok()) return Stop(loop, frame, n);
    }
    return n;
  }

  // The record of the thread's innermost loop, and its innermost frame.
  bool Begin(uintptr_t thread, uintptr_t* loop, uintptr_t* frame) {
    if (at_.loop == 0) {
      *loop = 0;
      *frame = memory_.At<uintptr_t>(thread + at_.frame);
    } else {
      *loop = memory_.At<uintptr_t>(thread + at_.loop);
      *frame = memory_.At<uintptr_t>(*loop + at_.loop_frame);
    }
    return memory_.ok();
  }

 private:
  static size_t Stop(uintptr_t* loop, uintptr_t* frame, size_t n) {
    *loop = *frame = 0;
    return n;
  }

  bool IsA(uintptr_t object, const char* type) {
    const auto found = memory_.At<uintptr_t>(object + python::kTypeOf);
    return memory_.ok() && object % sizeof(uintptr_t) == 0 &&
           found == reinterpret_cast<uintptr_t>(type);
  }

  bool Read(uintptr_t string, Text* text) {
    if (!IsA(string, PyUnicode_Type)) return false;
    const auto length = memory_.At<size_t>(string + python::kLengthOf);
    const auto state = memory_.At<uint32_t>(string + python::kStateOf);
    const uint32_t width = state >> python::kKindShift & python::kKindMask;
    if (!memory_.ok() || (state & python::kCompact) == 0 ||
        (width != 1 && width != 2 && width != 4))
      return false;
    const bool ascii = (state & python::kAscii) != 0;
    const uintptr_t characters = string + (ascii ? at_.ascii_header : at_.unicode_header);
    const size_t n = std::min(length, ScriptFrames::kLongest);
    if (ascii) return width == 1 && text->AssignAscii(memory_, characters, n);
    for (size_t i = 0; i < n; ++i) {
      uint32_t c = 0;  // little-endian, as all of our machines
      if (!memory_.Copy(characters + i * width, &c, width)) return false;
      text->Append(c);
    }
    return true;
  }

  uint32_t LineOfDef(uintptr_t code) {
    const auto first = memory_.At<int32_t>(code + at_.first_line);
    return memory_.ok() && first > 0 ? static_cast<uint32_t>(first) : 0;
  }

  uint32_t LineOf(uintptr_t code, uintptr_t instruction) {
    const auto first = memory_.At<int32_t>(code + at_.first_line);
    const auto table = memory_.At<uintptr_t>(code + at_.lines);
    if (!memory_.ok() || first < 0) return 0;
    const uintptr_t begin = code + at_.instructions;
    // Before its first instruction a frame stands at the line of its def.
    if (instruction < begin || !IsA(table, PyBytes_Type)) return static_cast<uint32_t>(first);
    const auto size = memory_.At<size_t>(table + python::kLengthOf);
    if (!memory_.ok() || size > kLongestTable) return 0;
    const int64_t line = python::LineAt(Bytes(memory_, table + python::kBytesHeader, size), size,
                                        (instruction - begin) / 2, first);
    return line > 0 && line <= INT32_MAX ? static_cast<uint32_t>(line) : 0;
  }

  const Layout& at_;
  const ScriptLines lines_;
  ScriptFrames& names_;
  bool has_innermost_ = false;
  Reader memory_;
};

}  // namespace

bool RunsPython() { return FindLayout() != nullptr; }

size_t WithPythonFrames(const uintptr_t* frames, const uintptr_t* places, size_t depth,
                        ScriptLines lines, ScriptFrames& names, uintptr_t* out, size_t max) {
  size_t n = 0;
  size_t native = 0;  // the next frame of the walk
  const Layout* layout = FindLayout();
  const void* thread = layout != nullptr && !IsEnding() ? PyGILState_GetThisThreadState() : nullptr;
  if (thread != nullptr) {
    FrameReader reader(*layout, lines, names);
    uintptr_t loop;
    uintptr_t frame;
    bool more = reader.Begin(reinterpret_cast<uintptr_t>(thread), &loop, &frame);
    // Each call of the loop is a frame of the walk; frames that are no frames may lead in a circle.
    for (size_t loops = 0; more && frame != 0 && n < max && loops < depth; ++loops) {
      uintptr_t python_frames[kMostFrames];
      uintptr_t place;
      const size_t count =
          reader.ReadLoop(&loop, &frame, &place, python_frames, std::min(kMostFrames, max - n));
      if (count == 0) continue;
      // The loop is the function whose return address lies next above what it keeps on the stack.
      size_t above = native;
      while (above < depth && places[above] <= place) ++above;
      if (above == depth || above == 0) break;  // of another stack, or the walk ended before
      while (native + 1 < above && n < max) out[n++] = frames[native++];
      native = above;
      for (size_t i = 0; i < count && n < max; ++i) out[n++] = python_frames[i];
      more = loop != 0 || layout->loop == 0;
    }
  }
  while (native < depth && n < max) out[n++] = frames[native++];
  return n;
}

}  // namespace strata
