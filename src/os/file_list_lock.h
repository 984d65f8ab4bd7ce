// glibc's lock on its list of open files, for fork handlers. glibc's fork takes that lock after our
// handler ran; a thread that holds it (fflush(NULL)) may wait for a file whose owner waits for us.
// So it must come before the allocator's locks, not after. Sits in os.
#pragma once

// glibc's, exported since 2.2.5; the lock is recursive.
extern "C" {
void _IO_list_lock() __attribute__((weak));
void _IO_list_unlock() __attribute__((weak));
void _IO_list_resetlock() __attribute__((weak));
}

namespace strata {

class FileListLock {
 public:
  static void Acquire() {
    if (There()) _IO_list_lock();
  }
  static void Release() {
    if (There()) _IO_list_unlock();
  }
  static void ResetInChild() {
    if (There()) _IO_list_resetlock();
  }

 private:
  static bool There() {
    return &_IO_list_lock != nullptr && &_IO_list_unlock != nullptr &&
           &_IO_list_resetlock != nullptr;
  }
};

}  // namespace strata
