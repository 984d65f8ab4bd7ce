// What of the library only the start needs. Sits in malloc.
#pragma once

namespace strata {

// The library's constructor is done. Other libraries' may have come before it and have allocated.
void NoteLoaded();

// Once, after that: the code that makes the heap, and the relocations, leave the process's memory.
// Who needs a page of them again gets it from the file.
void LetGoOfStartCode();

}  // namespace strata
