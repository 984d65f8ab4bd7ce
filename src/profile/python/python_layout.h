// Where CPython keeps a thread's frames, by its version: offsets in bytes for a 64-bit build, as
// the headers of each version (Include/internal/pycore_frame.h, cpython/code.h) lay them out.
// Within a minor version CPython keeps them. Sits in profile/python.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::python {

// How the frames that one call of the interpreter's loop runs are told from those of another.
enum class Entry : uint8_t {
  kByFlag,    // 3.11: a flag in the outermost of them; the loop's record lies on the C stack
  kByRecord,  // 3.12: an extra frame outside of them, which lies on the C stack itself
};

struct Layout {
  uint32_t version;  // major * 256 + minor
  Entry entry;
  // Of the thread state: the record of the innermost loop. Null where the frame is found at once.
  uint16_t loop;
  uint16_t loop_frame;     // of the record: the innermost frame
  uint16_t loop_previous;  // of the record: that of the loop outside
  // Of the thread state: the innermost frame, where there is no record.
  uint16_t frame;
  // Of a frame.
  uint16_t code;
  uint16_t previous;
  uint16_t instruction;
  uint16_t entry_flag;
  uint16_t owner;
  // Of a code object.
  uint16_t first_line;
  uint16_t file;
  uint16_t name;
  uint16_t lines;
  uint16_t instructions;
  // Of a string: what its characters lie behind.
  uint16_t ascii_header;
  uint16_t unicode_header;
};

inline constexpr Layout kLayouts[] = {
    {0x30b, Entry::kByFlag, 56, 8, 16, 0, 32, 48, 56, 68, 69, 72, 112, 128, 136, 184, 48, 72},
    {0x30c, Entry::kByRecord, 56, 0, 8, 0, 0, 8, 56, 0, 70, 68, 112, 128, 136, 192, 40, 56},
    {0x30d, Entry::kByRecord, 0, 0, 0, 72, 0, 8, 56, 0, 70, 68, 112, 128, 136, 200, 40, 56},
    {0x30e, Entry::kByRecord, 0, 0, 0, 72, 0, 8, 56, 0, 74, 68, 112, 128, 136, 208, 40, 56},
};

// The same in all of them.
inline constexpr size_t kTypeOf = 8;     // of any object
inline constexpr size_t kLengthOf = 16;  // of a string, bytes or tuple
inline constexpr size_t kStateOf = 32;   // of a string: its width and form
inline constexpr uint32_t kKindShift = 2, kKindMask = 7, kCompact = 0x20, kAscii = 0x40;
inline constexpr size_t kBytesHeader = 32;
inline constexpr uint8_t kOwnedByCStack = 3;  // from 3.14 on, 4 is another of these
// From 3.14 on a frame's code is a reference with marks in its lowest bits, which are 0 before.
inline constexpr uintptr_t kReferenceMarks = 3;

}  // namespace strata::python
