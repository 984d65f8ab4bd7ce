// A word in a freed block, behind its link, by which a second free of it is found. The word is the
// block's own: of its address and of where this library was loaded, so no other block's content and
// no constant of the program's looks like it. Whoever hands the block out clears it. A program that
// writes into what it has freed may hide a double free from it, and two threads that free a block
// at the same moment may both come by. Blocks must hold two words.
#pragma once

#include <cstdint>
#include <new>

namespace strata::layers {

class FreedMark {
 public:
  static bool On(const void* block) { return static_cast<const uint64_t*>(block)[1] == Of(block); }
  static void Set(void* block) { ::new (WordOf(block)) uint64_t(Of(block)); }
  static void Clear(void* block) { ::new (WordOf(block)) uint64_t(0); }

 private:
  static inline const char key = 0;

  static void* WordOf(void* block) { return static_cast<char*>(block) + sizeof(uint64_t); }
  static uint64_t Of(const void* block) {
    return (reinterpret_cast<uintptr_t>(block) ^ reinterpret_cast<uintptr_t>(&key)) *
           0x9e37'79b9'7f4a'7c15;
  }
};

}  // namespace strata::layers
