// Python's own frames for a process that runs CPython 3.11, 3.12 or 3.13: in a stack walk they take
// the place of the interpreter's loop, so that a profile names functions, files and lines of the
// program. Everything is read where it lies, by the thread whose frames they are, and only where
// memory can be read; nothing of Python is called but the look-up of the thread's state, and
// whether Python ends. Sits in profile/python.
#pragma once

#include <cstddef>
#include <cstdint>

#include "profile/script_frames.h"

namespace strata {

// Whether a Python that we can read is loaded: it was when the dynamic linker bound this library.
bool RunsPython();

// Copies a walk (`frames`, with `places` as WalkStack gives them) to `out`, at most `max`, with the
// calling thread's Python frames in it. Without any, it is the walk itself. Takes no lock; deep.
size_t WithPythonFrames(const uintptr_t* frames, const uintptr_t* places, size_t depth,
                        ScriptLines lines, ScriptFrames& names, uintptr_t* out, size_t max);

}  // namespace strata
