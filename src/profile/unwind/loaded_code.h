// Rules for code that is in no table yet, read where the file is mapped: in the first second of a
// process, and after a dlopen until the next round. By the index of .eh_frame that every file with
// exceptions has (Linux Standard Base, .eh_frame_hdr), and glibc's own search for it, which takes
// no lock (_dl_find_object, since 2.35; elsewhere nothing is found). Sits in profile/unwind.
//
// Nothing is copied first, as RefreshUnwindTables does: the code has a frame on the walker's own
// stack, and so can't be unmapped meanwhile. Some microseconds a frame, and more of the stack than
// a caller of malloc gives: for a side stack.
#pragma once

#include <cstddef>
#include <cstdint>

#include "profile/unwind/unwind_rule.h"

namespace strata {

// The index of a mapped file, and how far the file reaches behind it.
struct FrameIndex {
  const uint8_t* bytes = nullptr;
  size_t size = 0;
};

// Whether the C library has the search at all. Not within malloc: it looks the function up.
bool CanFindLoadedCode();

// Whether the dynamic linker knows a file with unwind information there. Any thread, at any time.
bool FindFrameIndex(uintptr_t pc, FrameIndex* index);

// The rule for the code at `pc`; kNone if the index or the entry it names makes no sense.
UnwindRule RuleByIndex(FrameIndex index, uintptr_t pc);

// As UnwindIndex's Find, over what is loaded.
struct LoadedCode {
  FoundRule Find(uintptr_t pc) const {
    FrameIndex index;
    if (!FindFrameIndex(pc, &index)) return {};
    return {RuleByIndex(index, pc), true};
  }
};

}  // namespace strata
