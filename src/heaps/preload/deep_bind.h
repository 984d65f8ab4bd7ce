// Loads with RTLD_DEEPBIND. A library so loaded looks into what it needs, libc among it, before it
// looks into the program: its free is libc's, and the blocks that it gets are ours. deep_bind.cpp
// therefore stands before dlopen. Sits in heaps, in every library that replaces malloc.
#pragma once

namespace strata {

// Whether such a load may go on as it was asked for; each library says. Called by dlopen, before it
// has done anything.
bool MayBindDeep();

}  // namespace strata
