// Input and output that the program does not notice. libc's read, write, open and their like are
// cancellation points, others may interpose them, and a write may raise a signal; malloc and free
// must do none of that. So what Strata reads, writes or waits for goes to the kernel from here.
// The functions are named after libc's and answer as those do, with -1 and errno.
#pragma once

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>

#include <cstddef>
#include <cstdint>

#include <fcntl.h>

// Call: a system call as it is.
#if defined(__aarch64__)
#include "strata/arch/raw_call_aarch64.h"
#else
#include "strata/arch/raw_call_x86_64.h"
#endif

namespace strata::raw {

inline long Answer(long result) {
  // Only these are errors: a call may return an address, or an offset, of the upper half.
  constexpr long kMostErrno = 4095;
  if (result >= 0 || result < -kMostErrno) return result;
  errno = static_cast<int>(-result);
  return -1;
}
template <class T>
long Word(T* p) {
  return static_cast<long>(reinterpret_cast<uintptr_t>(p));
}

inline int Open(const char* path, int flags, mode_t mode = 0) {
  return static_cast<int>(
      Answer(Call(SYS_openat, AT_FDCWD, Word(path), flags, static_cast<long>(mode))));
}
// Not to be tried again after EINTR: the descriptor is gone.
inline int Close(int fd) { return static_cast<int>(Answer(Call(SYS_close, fd))); }
inline ssize_t Read(int fd, void* to, size_t n) {
  return Answer(Call(SYS_read, fd, Word(to), static_cast<long>(n)));
}
inline ssize_t Pread(int fd, void* to, size_t n, off_t at) {
  return Answer(Call(SYS_pread64, fd, Word(to), static_cast<long>(n), at));
}
inline int Fcntl(int fd, int command, long argument) {
  return static_cast<int>(Answer(Call(SYS_fcntl, fd, command, argument)));
}
inline int Ppoll(pollfd* entries, size_t n, const timespec* timeout) {
  timespec left{};  // the kernel's own call changes it, libc's function does not
  if (timeout != nullptr) left = *timeout;
  return static_cast<int>(Answer(
      Call(SYS_ppoll, Word(entries), static_cast<long>(n), timeout == nullptr ? 0 : Word(&left))));
}
inline int Poll(pollfd* entries, size_t n, int milliseconds) {
#ifdef SYS_poll  // which sandboxes of programs that were written for poll allow
  return static_cast<int>(
      Answer(Call(SYS_poll, Word(entries), static_cast<long>(n), milliseconds)));
#else
  constexpr int kSecond = 1000;
  constexpr long kMillisecond = 1'000'000;
  const timespec timeout{milliseconds / kSecond, milliseconds % kSecond * kMillisecond};
  return Ppoll(entries, n, milliseconds < 0 ? nullptr : &timeout);
#endif
}
inline int Nanosleep(const timespec* time, timespec* left) {
  return static_cast<int>(Answer(Call(SYS_nanosleep, Word(time), Word(left))));
}
inline ssize_t Recv(int fd, void* to, size_t n, int flags) {
  return Answer(Call(SYS_recvfrom, fd, Word(to), static_cast<long>(n), flags));
}
inline ssize_t Send(int fd, const void* from, size_t n, int flags) {
  return Answer(Call(SYS_sendto, fd, Word(from), static_cast<long>(n), flags));
}
inline int Accept4(int fd, int flags) {
  return static_cast<int>(Answer(Call(SYS_accept4, fd, 0, 0, flags)));
}

constexpr uint64_t SignalBit(int signal) { return uint64_t{1} << (signal - 1); }

// Keeps from the program the signals that a write of ours may raise: SIGPIPE, where nobody reads
// any more, and SIGXFSZ, beyond the limit on file sizes. Either would end a program by default. The
// masks are the kernel's own: libc's functions drop the signals that libc uses itself.
class WriteSignals {
 public:
  WriteSignals() { Call(SYS_rt_sigprocmask, SIG_BLOCK, Word(&kOurs), Word(&before_), kMaskBytes); }
  ~WriteSignals() { Call(SYS_rt_sigprocmask, SIG_SETMASK, Word(&before_), 0, kMaskBytes); }
  WriteSignals(const WriteSignals&) = delete;
  WriteSignals& operator=(const WriteSignals&) = delete;

  // What was pending before can be the program's only: that stays.
  void NotePending() {
    if ((before_ & kOurs) != 0) Call(SYS_rt_sigpending, Word(&pending_), kMaskBytes);
  }
  // After a write that failed with `error`, which raised one.
  void TakeBack(long error) {
    const uint64_t raised = error == EPIPE   ? SignalBit(SIGPIPE)
                            : error == EFBIG ? SignalBit(SIGXFSZ)
                                             : 0;
    if (raised == 0 || (pending_ & raised) != 0) return;
    constexpr timespec kNow{};
    Call(SYS_rt_sigtimedwait, Word(&raised), 0, Word(&kNow), kMaskBytes);
  }

 private:
  static constexpr uint64_t kOurs = SignalBit(SIGPIPE) | SignalBit(SIGXFSZ);
  static constexpr long kMaskBytes = sizeof(uint64_t);

  uint64_t before_ = 0;
  uint64_t pending_ = 0;
};

inline ssize_t Write(int fd, const void* from, size_t n) {
  WriteSignals signals;
  signals.NotePending();
  const long result = Call(SYS_write, fd, Word(from), static_cast<long>(n));
  if (result < 0) signals.TakeBack(-result);
  return Answer(result);
}

}  // namespace strata::raw
