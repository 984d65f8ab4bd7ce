// Output files. See output_path.h.
#include "report/output_path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/errno_keeper.h"
#include "os/clock.h"
#include "profile/text_sink.h"
#include "strata/raw_io.h"

namespace strata {
namespace {

bool SameFile(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

int CopyPath(const char* path, char* out) {
  const size_t length = strlen(path);
  if (length >= kPathBytes) return ENAMETOOLONG;
  memcpy(out, path, length + 1);
  return 0;
}

struct Copy {
  int number = -1;
  int fd = -1;
  struct stat file{};  // in case the program closes all descriptors and reuses the number
};
constexpr size_t kMostCopies = 4;
constinit Copy g_copies[kMostCopies];

}  // namespace

void ExpandPath(const char* pattern, char* out, size_t capacity) {
  TextSink sink(out, capacity);
  for (; *pattern != '\0'; ++pattern) {
    if (pattern[0] == '%' && pattern[1] == 'p') {
      sink.Number(static_cast<uint64_t>(getpid()));
      ++pattern;
    } else {
      sink.Char(*pattern);
    }
  }
  sink.Finish();
}

void KeepDescriptor(int fd) {
  const ErrnoKeeper keep;
  constexpr int kOutOfTheWay = 200;  // programs expect the lowest descriptors to be theirs
  for (Copy& copy : g_copies) {
    if (copy.number == fd) return;
    if (copy.number >= 0) continue;
    copy.fd = raw::Fcntl(fd, F_DUPFD_CLOEXEC, kOutOfTheWay);
    if (copy.fd >= 0 && fstat(copy.fd, &copy.file) == 0) copy.number = fd;
    return;
  }
}

void KeepDescriptorOf(const char* path) {
  const ErrnoKeeper keep;
  char followed[kPathBytes];
  PathKind kind;
  if (CopyPath(path, followed) != 0 || FollowPath(followed, kPathBytes, kind) != 0) return;
  if (kind == PathKind::kDescriptor && DescriptorOf(followed) >= 0)
    KeepDescriptor(DescriptorOf(followed));
}

int KeptDescriptor(int fd) {
  struct stat now;
  for (const Copy& copy : g_copies) {
    if (copy.number == fd && fstat(copy.fd, &now) == 0 && SameFile(now, copy.file)) return copy.fd;
  }
  return fd;
}

bool MayStandBeside(const char* path) {
  const ErrnoKeeper keep;
  char followed[kPathBytes];
  PathKind kind = PathKind::kFile;
  if (CopyPath(path, followed) == 0) FollowPath(followed, kPathBytes, kind);
  return kind == PathKind::kFile;
}

OutputFile::OutputFile(const char* path, mode_t mode) {
  open_error_ = CopyPath(path, path_);
  if (open_error_ == 0) open_error_ = FollowPath(path_, kPathBytes, kind_);
  if (open_error_ != 0) return;
  switch (kind_) {
    case PathKind::kFile:
      open_error_ = OpenNew(mode);
      break;
    case PathKind::kInPlace:
      open_error_ = OpenInPlace();
      break;
    case PathKind::kDescriptor:
      open_error_ = OpenDescriptor();
      break;
  }
}

// What has the name is another's, for two containers on one volume have processes of one number. No
// two try the same ones for long: the clock's last digits are theirs alone.
int OutputFile::OpenNew(mode_t mode) {
  constexpr int kTries = 16;
  for (int i = 0; i < kTries; ++i) {
    TextSink name(temporary_, sizeof(temporary_));
    name.Text(path_).Char('.').Number(static_cast<uint64_t>(getpid()));
    name.Char('.').Number(ReadClock(CLOCK_MONOTONIC) % 1'000'000).Text(".tmp").Finish();
    fd_ = raw::Open(temporary_, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd_ >= 0) return 0;
    if (errno != EEXIST) break;
  }
  return errno;
}

// A pipe that nobody reads is an error at once, a full one after WriteAll's patience.
int OutputFile::OpenInPlace() {
  struct stat found;
  struct stat opened;
  if (lstat(path_, &found) != 0) return errno;
  constexpr int kFlags = O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | O_NOFOLLOW;
  fd_ = raw::Open(path_, kFlags);
  if (fd_ < 0) return errno;
  // Another user may have changed it since it was looked at.
  if (fstat(fd_, &opened) == 0 && SameFile(found, opened) && !S_ISREG(opened.st_mode)) return 0;
  raw::Close(fd_);
  fd_ = -1;
  return EACCES;
}

// The link is opened anew, so that a full pipe does not hold the program for ever. What can't be
// opened (a socket, another user's terminal) and a regular file, whose position is shared, is
// written through the program's own descriptor; but not in a thread with a table of its own, where
// the number stands for something else.
int OutputFile::OpenDescriptor() {
  const int number = DescriptorOf(path_);
  const int kept = number < 0 ? -1 : KeptDescriptor(number);
  struct stat ours;
  struct stat link;
  const bool there = stat(path_, &link) == 0;
  const bool usable =
      kept >= 0 && fstat(kept, &ours) == 0 && (kept != number || (there && SameFile(ours, link)));
  if (!there && !usable) return ENOENT;
  if (!usable || !S_ISREG(ours.st_mode)) {
    char name[32];
    const char* path = path_;
    if (usable && kept != number) {
      TextSink sink(name, sizeof(name));
      sink.Text("/proc/self/fd/").Number(static_cast<uint64_t>(kept)).Finish();
      path = name;
    }
    fd_ = raw::Open(path, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd_ >= 0) return 0;
    if (!usable) return errno;
  }
  fd_ = kept;
  borrowed_ = true;
  return 0;
}

int OutputFile::Finish(int error) {
  if (fd_ < 0) return open_error_;
  if (!borrowed_ && raw::Close(fd_) != 0 && error == 0) error = errno;
  if (kind_ != PathKind::kFile) return error;
  if (error == 0 && rename(temporary_, path_) != 0) error = errno;
  if (error != 0) unlink(temporary_);
  return error;
}

}  // namespace strata
