// A file that blocks are appended to, from within malloc and from several threads: each block is
// one write with O_APPEND, so no lock is needed. Only where the system takes a part of one (a disk
// that fills up, a limit on sizes, a pipe) may another thread's block come between its halves. See
// format.h.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "strata/raw_io.h"

namespace strata::trace {

class AppendFile {
 public:
  constexpr AppendFile() = default;
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // Makes the file. `flags`: O_EXCL or O_TRUNC. Returns 0 or an errno.
  int Open(const char* path, int flags) {
    const int fd = raw::Open(path, kFlags | O_CREAT | flags, 0600);
    return fd < 0 ? errno : Keep(fd);
  }

  // Takes what is there. A pipe that nobody reads is an error.
  int OpenInPlace(const char* path) {
    const int fd = raw::Open(path, kFlags);
    return fd < 0 ? errno : Keep(fd);
  }

  // Returns 0 or an errno. A program that closes descriptors it does not know (a daemon) may have
  // closed ours, and have something else there now; so it is looked at before each write.
  int Append(const char* path, const uint8_t* data, size_t size) {
    struct stat now;
    if (fstat(fd_, &now) != 0 || now.st_dev != device_ || now.st_ino != inode_) {
      if (const int error = OpenInPlace(path)) return error;
    }
    while (size != 0) {
      const ssize_t n = raw::Write(fd_, data, size);
      if (n < 0 && errno == EAGAIN) {
        // A pipe that is full: its reader may need a while, but not for ever.
        constexpr int kPatienceMs = 10'000;
        pollfd wait{fd_, POLLOUT, 0};
        if (raw::Poll(&wait, 1, kPatienceMs) == 0) return ETIMEDOUT;
        continue;
      }
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno;
      data += n;
      size -= static_cast<size_t>(n);
    }
    return 0;
  }
  bool is_open() const { return fd_ >= 0; }
  void Close() {
    struct stat now;
    if (fd_ >= 0 && fstat(fd_, &now) == 0 && now.st_dev == device_ && now.st_ino == inode_)
      raw::Close(fd_);
    fd_ = -1;
  }

 private:
  static constexpr int kFlags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

  // Out of the way of programs that count on low numbers, where the limit allows.
  int Keep(int fd) {
    constexpr int kHigh = 900;
    const int high = raw::Fcntl(fd, F_DUPFD_CLOEXEC, kHigh);
    if (high >= 0) {
      raw::Close(fd);
      fd = high;
    }
    struct stat now;
    if (fstat(fd, &now) != 0) {
      const int error = errno;
      raw::Close(fd);
      return error;
    }
    device_ = now.st_dev;
    inode_ = now.st_ino;
    fd_ = fd;
    return 0;
  }

  int fd_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace strata::trace
