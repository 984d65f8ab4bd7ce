// Reading small files of the kernel's. See kernel_text.h.
#include "os/kernel_text.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/errno_keeper.h"
#include "strata/raw_io.h"

namespace strata {

int WhyNoKernelText(const char* path, char* text, size_t n) {
  const ErrnoKeeper keep;
  if (path[0] == '\0') return ENOENT;
  const int fd = raw::Open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return errno;
  size_t length = 0;
  while (length < n - 1) {
    const ssize_t got = raw::Read(fd, text + length, n - 1 - length);
    if (got <= 0) break;
    length += static_cast<size_t>(got);
  }
  raw::Close(fd);
  text[length] = '\0';
  return length != 0 ? 0 : ENODATA;
}

size_t ParseKernelNumber(const char* at) {
  size_t n = 0;
  for (; *at >= '0' && *at <= '9'; ++at) {
    if (__builtin_mul_overflow(n, size_t{10}, &n)) return 0;
    n += static_cast<size_t>(*at - '0');
  }
  return n < (size_t{1} << 60) ? n : 0;
}

size_t ReadKernelNumber(const char* directory, const char* file) {
  char text[64];
  const KernelPath path = KernelPath().Add(directory).Add(file);
  return ReadKernelText(path.text(), text, sizeof(text)) ? ParseKernelNumber(text) : 0;
}

size_t FieldInText(const char* text, const char* name) {
  const char* at = strstr(text, name);
  return at == nullptr ? 0 : ParseKernelNumber(at + strlen(name) + strspn(at + strlen(name), " "));
}

size_t ReadKernelField(const char* directory, const char* file, const char* name) {
  char text[8192];
  const KernelPath path = KernelPath().Add(directory).Add(file);
  return ReadKernelText(path.text(), text, sizeof(text)) ? FieldInText(text, name) : 0;
}

bool WriteKernelText(const char* directory, const char* file, const char* text, size_t n) {
  const ErrnoKeeper keep;
  const KernelPath path = KernelPath().Add(directory).Add(file);
  const int fd = raw::Open(path.text(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return false;
  const ssize_t written = raw::Write(fd, text, n);
  raw::Close(fd);
  return written == static_cast<ssize_t>(n);
}

bool WriteKernelNumber(const char* directory, const char* file, size_t n) {
  char text[24];
  char* at = text + sizeof(text);
  do *--at = static_cast<char>('0' + n % 10);
  while ((n /= 10) != 0);
  return WriteKernelText(directory, file, at, static_cast<size_t>(text + sizeof(text) - at));
}

}  // namespace strata
