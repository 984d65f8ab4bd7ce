// Writing to a descriptor to the end. See write_all.h.
#include "base/write_all.h"

#include <errno.h>

#include "strata/raw_io.h"

namespace strata {

constinit std::atomic<bool (*)()> g_writer_must_end{nullptr};

namespace {

bool MustEnd() {
  bool (*must_end)() = g_writer_must_end.load(std::memory_order_relaxed);
  return must_end != nullptr && must_end();
}

// Waits until a descriptor that does not block takes more.
bool AwaitRoom(int fd) {
  constexpr int kLookMs = 100;
  pollfd wait{fd, POLLOUT, 0};
  int ready = 0;
  for (int ms = 0; ready == 0 && ms < kPatienceMs && !MustEnd(); ms += kLookMs)
    ready = raw::Poll(&wait, 1, kLookMs);
  if (ready == 0) errno = ETIMEDOUT;
  return ready > 0 || (ready < 0 && errno == EINTR);
}

}  // namespace

bool WriteAll(int fd, const void* data, size_t size) {
  const auto* bytes = static_cast<const char*>(data);
  const int saved = errno;
  while (size != 0) {
    const ssize_t n = raw::Write(fd, bytes, size);
    if (n > 0) {
      bytes += n;
      size -= static_cast<size_t>(n);
    } else if (n == 0) {
      errno = ENOSPC;
      return false;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!AwaitRoom(fd)) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  errno = saved;
  return true;
}

}  // namespace strata
