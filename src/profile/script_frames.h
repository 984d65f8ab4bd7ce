// Frames of an interpreted program, as they stand in a call stack among return addresses: each is a
// name, a file and a line, kept once and for good. Sits in profile; the writer of profiles looks
// them up again.
//
// Lock-free, as the walk that brings the frames is, and so whole beside a fork: a record is
// written, then its slot of the hash table is set; who loses that race wastes his record. Bounded:
// when there is no room, the interpreter's own frame stays in the stack.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace strata {

struct ScriptFrame {
  std::string_view name;  // UTF-8, as is the file
  std::string_view file;
  uint32_t line = 0;  // 0: not known
};

// Which line of a function its frame stands at.
enum class ScriptLines : uint8_t {
  kCurrent,
  // Only the innermost frame at its own, its callers at the line of their def: stacks that differ
  // in nothing but where a function calls on are one.
  kOfCallersDef,
};

class ScriptFrames {
 public:
  // Zeroed memory that is only taken from the system as it is touched, or null.
  using MapFunction = void* (*)(size_t bytes);

  static constexpr size_t kBytes = size_t{4} << 20;
  static constexpr size_t kLongest = 1024;  // a name or a file; longer ones are cut

  constexpr explicit ScriptFrames(MapFunction map) : map_(map) {}

  // What stands for the frame in a stack; 0: no room.
  uintptr_t Intern(const ScriptFrame& frame);

  // False unless Intern gave it out.
  bool Find(uintptr_t frame, ScriptFrame* out) const;

  // No address of a program has this bit, on any machine Strata runs on.
  static constexpr bool IsScriptFrame(uintptr_t frame) { return (frame & kMark) != 0; }

  size_t bytes() const;  // touched

 private:
  struct Record {
    uint32_t hash;
    uint32_t line;
    uint32_t name_size;
    uint32_t file_size;
    // Behind: the name, then the file.
  };
  static constexpr uintptr_t kMark = uintptr_t{1} << 62;
  static constexpr size_t kSlots = size_t{1} << 15;
  static constexpr size_t kUnit = alignof(Record);
  static constexpr size_t kRecordsAt = kSlots * sizeof(uint32_t);

  char* Base();
  bool Is(const Record& record, uint32_t hash, const ScriptFrame& frame) const;
  uint32_t Write(char* base, uint32_t hash, const ScriptFrame& frame);

  MapFunction map_;
  std::atomic<char*> base_{nullptr};
  // Of the memory behind the slots; may run past its end when that is full.
  std::atomic<size_t> used_{kRecordsAt};
};

}  // namespace strata
