// Where the code of a mapped ELF file lies, and its unwind information, by its program headers as
// they are mapped. Sits in profile/unwind.
#pragma once

#include <cstddef>
#include <cstdint>

#include "profile/mappings.h"
#include "profile/scratch_array.h"
#include "profile/unwind/eh_frame.h"

namespace strata {

struct CodeRange {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};

struct ElfCode {
  static constexpr size_t kMaxRanges = 8;  // executable segments; most files have one
  CodeRange ranges[kMaxRanges];
  size_t range_count = 0;
  uintptr_t frames = 0;      // .eh_frame; 0: none that could be found
  size_t frames_size = 0;    // at most: to the end of its segment
  uint64_t fingerprint = 0;  // of the first page, where headers and mostly the build id lie
};

// Of the file whose first byte is mapped at `base`. False: no ELF file of this machine. Another
// thread may unmap it or put another file there meanwhile: what came out is whole if the
// fingerprint is the same when read again.
bool ReadElfCode(uintptr_t base, MemoryReader& memory, ElfCode* code);

// Copies the unwind information, since the file may be unmapped at any time. An empty one if it
// can't be read; false: no memory.
bool CopyFrames(const ElfCode& code, MemoryReader& memory, ScratchArray<uint8_t>& bytes,
                EhFrame* section);

}  // namespace strata
