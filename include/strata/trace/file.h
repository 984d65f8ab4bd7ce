// A file that blocks are appended to, from within malloc and from several threads: each block is
// one write with O_APPEND, so no lock is needed. Only where the system takes a part of one (a disk
// that fills up, a limit on sizes, a pipe) may another thread's block come between its halves. See
// format.h.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace strata::trace {

// A file that reaches the limit on the size of files must not end the program: while this lives,
// SIGXFSZ does not reach the thread, and the one of our own write never does.
class NoSizeSignal {
 public:
  NoSizeSignal() {
    sigemptyset(&only_);
    sigaddset(&only_, SIGXFSZ);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &only_, &before_);
  }
  ~NoSizeSignal() {
    const int saved = errno;
    constexpr timespec kNow{};
    if (!was_pending_) sigtimedwait(&only_, nullptr, &kNow);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = saved;
  }
  NoSizeSignal(const NoSizeSignal&) = delete;
  NoSizeSignal& operator=(const NoSizeSignal&) = delete;

 private:
  sigset_t only_;
  sigset_t before_;
  bool was_pending_;
};

class AppendFile {
 public:
  constexpr AppendFile() = default;
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // Makes the file, or takes what is no regular file (a pipe, /dev/full) as it is. `flags`: O_EXCL
  // or O_TRUNC. Returns 0 or an errno.
  int Open(const char* path, int flags) {
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_CREAT | flags, 0644);
    if (fd < 0 && errno == EEXIST) {
      struct stat there;
      if (stat(path, &there) != 0 || S_ISREG(there.st_mode)) return EEXIST;
      fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    }
    if (fd < 0) return errno;
    return Keep(fd);
  }

  // Returns 0 or an errno. A program that closes descriptors it does not know (a daemon) may have
  // closed ours, and have something else there now; so it is looked at before each write.
  int Append(const char* path, const uint8_t* data, size_t size) {
    struct stat now;
    if (fstat(fd_, &now) != 0 || now.st_dev != device_ || now.st_ino != inode_) {
      const int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
      if (fd < 0) return errno;
      if (const int error = Keep(fd)) return error;
    }
    const NoSizeSignal no_signal;
    while (size != 0) {
      const ssize_t n = write(fd_, data, size);
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
      close(fd_);
    fd_ = -1;
  }

 private:
  // Out of the way of programs that count on low numbers, where the limit allows.
  int Keep(int fd) {
    constexpr int kHigh = 900;
    const int high = fcntl(fd, F_DUPFD_CLOEXEC, kHigh);
    if (high >= 0) {
      close(fd);
      fd = high;
    }
    struct stat now;
    if (fstat(fd, &now) != 0) {
      const int error = errno;
      close(fd);
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
