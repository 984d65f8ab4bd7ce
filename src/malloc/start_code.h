// What of the library a program rarely needs beyond its first hugepages. Sits in malloc.
#pragma once

namespace strata {

// The library's constructor is done. Other libraries' may have come before it and have allocated.
void NoteLoaded();

// Once, after that, at the heap's first growth: the code that makes the heap, and the relocations,
// leave the process's memory. Who needs a page of them again gets it from the file: some of that
// code runs whenever the heap grows by a hugepage. What was written into a page of it until then,
// as a breakpoint or a uprobe, is lost.
void LetGoOfStartCode();

}  // namespace strata
