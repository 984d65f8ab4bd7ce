// Names, makes and fills the file of a recording. See trace_file.h.
#include "trace/trace_file.h"

#include <cstring>

#include "base/error_text.h"
#include "base/message.h"
#include "os/path_kind.h"
#include "strata/raw_io.h"
#include "strata/trace/decode.h"
#include "strata/trace/encode.h"

namespace strata::trace {
namespace {

// `path`.N; false if that is too long.
bool WithNumber(const char* path, uint64_t n, char* out, size_t capacity) {
  char digits[24];
  size_t used = sizeof(digits);
  do {
    digits[--used] = static_cast<char>('0' + n % 10);
    n /= 10;
  } while (n != 0);
  const size_t length = strlen(path), more = sizeof(digits) - used;
  if (length + 1 + more + 1 > capacity) return false;
  memcpy(out, path, length);
  out[length] = '.';
  memcpy(out + length + 1, digits + used, more);
  out[length + 1 + more] = '\0';
  return true;
}

size_t ReadFile(const char* path, void* out, size_t capacity) {
  const int fd = raw::Open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t n = raw::Read(fd, out, capacity);
  raw::Close(fd);
  return n > 0 ? static_cast<size_t>(n) : 0;
}

}  // namespace

void TraceFile::Name(const char* path, bool is_main, const FileHeader& header) {
  header_ = header;
  is_main_ = is_main;
  const size_t length = strlen(path);
  if (length >= kMostPath) {
    Message().Text("cannot record a trace: the path is too long").Send();
    return;
  }
  memcpy(path_, path, length + 1);
}

void TraceFile::ForkedChild(const FileHeader& header) {
  header_ = header;
  is_main_ = false;
  file_.Close();
  making_.Reset();
  made_.store(false, std::memory_order_relaxed);
}

bool TraceFile::Append(const uint8_t* block, size_t size) {
  if (failed_.load(std::memory_order_relaxed)) return false;
  if (!made_.load(std::memory_order_acquire)) {
    making_.Acquire();
    const int error = made_.load(std::memory_order_relaxed) ? 0 : Make();
    if (error == 0) made_.store(true, std::memory_order_release);
    making_.Release();
    if (error != 0) return Complain(error);
  }
  const int error = file_.Append(own_, block, size);
  return error == 0 || Complain(error);
}

// The one message of a recording that ends early.
bool TraceFile::Complain(int error) {
  if (!failed_.exchange(true, std::memory_order_relaxed)) {
    Message()
        .Text("the recording ends early: ")
        .Text(own_[0] != '\0' ? own_ : path_)
        .Text(": ")
        .Text(ErrorText(error))
        .Send();
  }
  return false;
}

// A file that is there already was made by this same process before it executed another program:
// it steps aside, to the first free PATH.1, PATH.2, and so on. Or by an earlier process of the same
// number, which is no different.
int TraceFile::OpenFree(const char* path) {
  char aside[sizeof(own_) + 32];
  int error = file_.Open(path, O_EXCL);
  for (uint64_t n = 1; error == EEXIST && n < 10'000; ++n) {
    if (!WithNumber(path, n, aside, sizeof(aside))) return ENAMETOOLONG;
    if (link(path, aside) != 0) {
      if (errno == EEXIST) continue;
      return errno;
    }
    unlink(path);
    error = file_.Open(path, O_EXCL);
  }
  return error;
}

// A device or a pipe takes the recording of the command itself, and no other process's: their
// blocks would mix, and a file beside it is not what was asked for.
int TraceFile::Make() {
  memcpy(own_, path_, strlen(path_) + 1);
  PathKind kind;
  if (const int error = FollowPath(own_, sizeof(own_), kind)) return error;
  if (kind != PathKind::kFile && !is_main_) {
    failed_.store(true, std::memory_order_relaxed);
    return ECANCELED;
  }
  if (!is_main_ && !WithNumber(path_, header_.pid, own_, sizeof(own_))) return ENAMETOOLONG;
  const int error = kind == PathKind::kFile ? OpenFree(own_) : file_.OpenInPlace(own_);
  if (error != 0) return error;
  char command[4096];
  const size_t length = ReadFile("/proc/self/cmdline", command, sizeof(command));
  uint8_t block[sizeof(command) + kBlockOverhead];
  const size_t size = EncodeHeader(header_, command, length, block, sizeof(block));
  return file_.Append(own_, block, size);
}

}  // namespace strata::trace
