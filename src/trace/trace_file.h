// The file of one process's recording: which name it has, its first block, and the end of the
// recording when it cannot be written. Sits in trace.
#pragma once

#include <sys/types.h>

#include "base/thread_annotations.h"
#include "strata/trace/file.h"
#include "strata/trace/format.h"
#include "trace/spin.h"

namespace strata::trace {

class TraceFile {
 public:
  constexpr TraceFile() = default;

  // The path that the user gave, and whether this process is the one it is for; all others write
  // to PATH.PID. Nothing is made until there is something to write: a launcher that only executes
  // another program leaves no file.
  void Name(const char* path, bool is_main, const FileHeader& header);

  // Appends one block; makes the file first. False: the recording has to end, and a message told.
  bool Append(const uint8_t* block, size_t size);

  // In a forked child. The next Append makes a file of the child's.
  void ForkedChild(const FileHeader& header);

  // In a signal handler: it interrupted the making of the file.
  bool IsMadeByThisThread() const { return making_.HeldByThisThread(); }

  bool named() const { return path_[0] != '\0'; }

 private:
  static constexpr size_t kMostPath = 4096;

  int Make() STRATA_REQUIRES(making_);
  int OpenFree(const char* path);
  bool Complain(int error);

  char path_[kMostPath] = {};      // as the user gave it
  char own_[kMostPath + 32] = {};  // this process's
  FileHeader header_;
  AppendFile file_;
  Spin making_;
  bool is_main_ = false;
  std::atomic<bool> made_{false};
  std::atomic<bool> failed_{false};
};

}  // namespace strata::trace
