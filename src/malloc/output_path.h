// Files that the library writes where options say: their paths, and how they take the place of the
// files before them. Sits in malloc.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace strata {

// Copies `pattern`, with each %p replaced by the pid, so that the processes of a tree do not write
// over each other. Cut at capacity; always ended by a zero byte.
void ExpandPath(const char* pattern, char* out, size_t capacity);

// A file that replaces another whole or not at all: a reader never sees half of it, and processes
// that write to the same path do not meet in one temporary. Two threads of a process must not write
// to the same path at a time.
class ReplacementFile {
 public:
  ReplacementFile(const char* path, mode_t mode);
  ReplacementFile(const ReplacementFile&) = delete;
  ReplacementFile& operator=(const ReplacementFile&) = delete;

  int fd() const { return fd_; }  // -1: it can't be made, and Finish says why
  // `error`: 0, or the errno of what went wrong with its contents. Returns 0 when it is in its
  // place; else the first error, and nothing is left of it.
  int Finish(int error);

 private:
  const char* path_;
  int fd_;
  int open_error_;
  char temporary_[4300];
};

}  // namespace strata
