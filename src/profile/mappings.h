// What code is mapped where: /proc/PID/maps, and the build ids that lie in mapped ELF files. The
// text and the memory are parameters, so that tests and fuzzers can hand in anything. Sits in
// profile.
#pragma once

#include <cstddef>
#include <cstdint>

#include "profile/scratch_array.h"

namespace strata {

// One line of /proc/PID/maps. `path` points into the text and is not ended by a zero byte.
struct Mapping {
  uintptr_t start = 0;
  uintptr_t end = 0;
  uint64_t file_offset = 0;
  uint64_t device = 0;
  uint64_t inode = 0;
  bool readable = false;
  bool executable = false;
  bool deleted = false;  // the kernel's " (deleted)" is cut off the path
  const char* path = nullptr;
  size_t path_length = 0;

  bool SameFile(const Mapping& other) const;
};

// Walks the lines; malformed ones are passed over.
class MapsParser {
 public:
  MapsParser(const char* text, size_t size) : at_(text), end_(text + size) {}
  bool Next(Mapping* mapping);

 private:
  const char* at_;
  const char* end_;
};

// qemu-user shows a program no mapping of its own as executable. Then all that is mapped from files
// to be read may be code, and is marked so, in place.
void MarkCodeIfNoneIs(char* maps, size_t size);

// The text of /proc/self/maps with that done, empty if it can't be read. False: no memory.
bool ReadOwnMaps(ScratchArray<char>& text);

// Memory of a process, which may vanish at any time. Read copies exactly n bytes, or returns false;
// it never faults. A function and not a virtual one: that would need libstdc++ and typeinfo.
class MemoryReader {
 public:
  using Function = bool (*)(MemoryReader& self, uintptr_t from, void* to, size_t n);

  explicit MemoryReader(Function read) : read_(read) {}
  bool Read(uintptr_t from, void* to, size_t n) { return read_(*this, from, to, n); }

 private:
  Function read_;
};

// For a process whose memory is out of reach: no build ids are found.
class NoMemory : public MemoryReader {
 public:
  NoMemory() : MemoryReader([](MemoryReader&, uintptr_t, void*, size_t) { return false; }) {}
};

// This process' own memory: by process_vm_readv, or through /proc/self/mem where that is forbidden.
class OwnMemory : public MemoryReader {
 public:
  OwnMemory() : MemoryReader(ReadOwn) {}
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;
  ~OwnMemory();

 private:
  static bool ReadOwn(MemoryReader& self, uintptr_t from, void* to, size_t n);

  int fd_ = -1;
  bool refused_ = false;
};

struct BuildId {
  static constexpr size_t kMaxSize = 64;
  uint8_t bytes[kMaxSize];
  size_t size = 0;  // 0: none
};

// The GNU build id of the ELF file whose beginning is mapped at `first` (file offset 0). Only what
// lies inside that mapping is looked at: linkers put the notes behind the program headers.
BuildId ReadBuildId(const Mapping& first, MemoryReader& memory);

}  // namespace strata
