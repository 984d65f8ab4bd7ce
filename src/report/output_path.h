// Files that the library writes where options say: their paths, how they take the place of the
// files before them, and what is written into as it is. Sits in report.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "os/path_kind.h"

namespace strata {

inline constexpr size_t kPathBytes = 4300;  // room for the longest option that is all %p

// Copies `pattern`, with each %p replaced by the pid, so that the processes of a tree do not write
// over each other. Cut at capacity; always ended by a zero byte.
void ExpandPath(const char* pattern, char* out, size_t capacity);

// Keeps a copy of the descriptor that the path names, or of this one, for programs that close
// theirs before our destructor runs (all of coreutils do). Called once at the start for each.
void KeepDescriptorOf(const char* path);
void KeepDescriptor(int fd);
// The copy, or `fd` itself where there is none, or where the program closed it and reused the
// number.
int KeptDescriptor(int fd);

// Whether a file beside it may have its name with something appended.
bool MayStandBeside(const char* path);

// A regular file is replaced whole or not at all: a reader never sees half of it, and processes
// that write to the same path do not meet in one temporary. What is no regular file is never
// replaced: it is written into, so two threads of a process must not do so at a time, and where it
// takes nothing, that is an error.
class OutputFile {
 public:
  OutputFile(const char* path, mode_t mode);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  int fd() const { return fd_; }  // -1: there is nothing to write to, and Finish says why
  // `error`: 0, or the errno of what went wrong with its contents. Returns 0 when all is in its
  // place; else the first error, and nothing is left of a new file.
  int Finish(int error);

 private:
  int OpenNew(mode_t mode);
  int OpenInPlace();
  int OpenDescriptor();

  PathKind kind_ = PathKind::kFile;
  bool borrowed_ = false;  // fd_ is the program's
  int fd_ = -1;
  int open_error_ = 0;
  char path_[kPathBytes];
  char temporary_[kPathBytes + 64];
};

}  // namespace strata
