// Starts a thread of the library's own: detached, small, deaf to signals. Sits in malloc.
#pragma once

namespace strata {

// False if there is no room for a thread now. Takes no lock while the thread is made, because
// pthread_create allocates through us. Keeps errno.
bool StartLibraryThread(const char* name, void* (*run)(void*));

}  // namespace strata
