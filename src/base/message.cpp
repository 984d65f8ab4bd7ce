// Builds and sends one line to stderr without allocating. See message.h.
#include "base/message.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "strata/raw_io.h"

namespace strata {
namespace {

// The background thread has a descriptor table of its own; /proc/self shows the program's. What the
// program has not opened for writing is not stderr, whatever its number.
int ReopenStderr() {
  constexpr const char* kPath = "/proc/self/fd/2";
  struct stat link;
  if (lstat(kPath, &link) != 0 || (link.st_mode & S_IWUSR) == 0) return -1;
  return raw::Open(kPath, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
}

constinit struct stat g_stderr{};
enum class Noted : uint8_t { kNo, kClosed, kOpen };
constinit Noted g_noted = Noted::kNo;

// A daemon that closes its streams gets their numbers for its files. What it opens as stderr on
// purpose is a terminal, /dev/null, or a pipe to what writes its log.
bool MayWarn() {
  struct stat now;
  if (g_noted == Noted::kNo) return true;
  if (stat("/proc/self/fd/2", &now) != 0 && fstat(STDERR_FILENO, &now) != 0) return false;
  return S_ISCHR(now.st_mode) || S_ISFIFO(now.st_mode) ||
         (g_noted == Noted::kOpen && now.st_dev == g_stderr.st_dev &&
          now.st_ino == g_stderr.st_ino);
}

}  // namespace

void NoteStderr() {
  const int saved = errno;
  g_noted = fstat(STDERR_FILENO, &g_stderr) == 0 ? Noted::kOpen : Noted::kClosed;
  errno = saved;
}

Message& Message::Text(const char* s) {
  while (*s != '\0' && used_ < kCapacity - 1) {
    // Values from the environment end up here: no control character reaches a terminal or a log.
    const char c = *s++;
    buffer_[used_++] = static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  return *this;
}

Message& Message::Number(size_t n) {
  char digits[24];
  size_t at = sizeof(digits);
  digits[--at] = '\0';
  do {
    digits[--at] = static_cast<char>('0' + n % 10);
    n /= 10;
  } while (n != 0);
  return Text(&digits[at]);
}

Message& Message::Hex(uintptr_t n) {
  char digits[20];
  size_t at = sizeof(digits);
  digits[--at] = '\0';
  do {
    digits[--at] = "0123456789abcdef"[n % 16];
    n /= 16;
  } while (n != 0);
  return Text("0x").Text(&digits[at]);
}

void Message::Warn() {
  const int saved = errno;
  if (MayWarn()) Send();
  errno = saved;
}

void Message::Send() {
  buffer_[used_] = '\n';
  const int saved = errno;
  size_t sent = 0;
  int fd = STDERR_FILENO;
  while (sent <= used_) {
    const ssize_t n = raw::Write(fd, buffer_ + sent, used_ + 1 - sent);
    if (n > 0) {
      sent += static_cast<size_t>(n);
    } else if (n < 0 && (errno == EBADF || errno == EINVAL) && fd == STDERR_FILENO) {
      fd = ReopenStderr();
      if (fd < 0) break;
    } else {
      break;
    }
  }
  if (fd >= 0 && fd != STDERR_FILENO) raw::Close(fd);
  errno = saved;
}

}  // namespace strata
