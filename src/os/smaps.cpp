// What /proc/self has on memory, read without allocating: how much of an address range hugepages
// back, and which pages are resident. Sits in os.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/units.h"
#include "os/confinement.h"
#include "os/page_bytes.h"
#include "os/resident.h"
#include "strata/raw_io.h"

namespace strata {
namespace {

uintptr_t ParseHex(const char*& at) {
  uintptr_t n = 0;
  for (;; ++at) {
    if (*at >= '0' && *at <= '9') {
      n = n * 16 + static_cast<uintptr_t>(*at - '0');
    } else if (*at >= 'a' && *at <= 'f') {
      n = n * 16 + static_cast<uintptr_t>(*at - 'a' + 10);
    } else {
      return n;
    }
  }
}

// Adds up the AnonHugePages lines of the mappings that lie in the range, line by line.
class Adder {
 public:
  Adder(uintptr_t start, uintptr_t end) : start_(start), end_(end) {}

  void Line(const char* line) {
    constexpr char kField[] = "AnonHugePages:";
    if (strncmp(line, kField, sizeof(kField) - 1) == 0) {
      if (!inside_) return;
      line += sizeof(kField) - 1;
      while (*line == ' ') ++line;
      size_t kib = 0;
      for (; *line >= '0' && *line <= '9'; ++line)
        kib = kib * 10 + static_cast<size_t>(*line - '0');
      bytes_ += kib << 10;
      return;
    }
    const char* at = line;
    const uintptr_t from = ParseHex(at);
    if (at == line || *at != '-') return;
    ++at;
    const uintptr_t to = ParseHex(at);
    if (*at == ' ') inside_ = from >= start_ && to <= end_;
  }

  size_t bytes() const { return bytes_; }

 private:
  uintptr_t start_;
  uintptr_t end_;
  bool inside_ = false;
  size_t bytes_ = 0;
};

// Calls f with each line of a file under /proc. False if it can't be opened.
template <class F>
bool ForEachLine(const char* path, F f) {
  const int saved = errno;
  const int fd = raw::Open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    errno = saved;
    return false;
  }
  char text[4096];
  size_t held = 0;
  ssize_t n;
  while ((n = raw::Read(fd, text + held, sizeof(text) - 1 - held)) > 0) {
    held += static_cast<size_t>(n);
    text[held] = '\0';
    char* line = text;
    while (char* line_end = strchr(line, '\n')) {
      *line_end = '\0';
      f(line);
      line = line_end + 1;
    }
    held = static_cast<size_t>(text + held - line);
    memmove(text, line, held);
    if (held == sizeof(text) - 1)
      held = 0;  // a line longer than the buffer is a path: of no interest
  }
  raw::Close(fd);
  errno = saved;
  return true;
}

}  // namespace

size_t HugeBackedBytes(uintptr_t start, uintptr_t end) {
  if (!MayOpenFiles() && !HasNoFilter()) return 0;
  Adder adder(start, end);
  ForEachLine("/proc/self/smaps", [&](const char* line) { adder.Line(line); });
  return adder.bytes();
}

bool PagesInPagemap(uintptr_t start, size_t native_pages, unsigned char* one_byte_a_page) {
  const int fd = raw::Open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const size_t page = KernelPageBytes();
  constexpr size_t kAtOnce = 64;
  uint64_t entries[kAtOnce];
  size_t done = 0;
  while (done < native_pages) {
    const size_t n = native_pages - done < kAtOnce ? native_pages - done : kAtOnce;
    const uintptr_t first = (start + done * kNativePageSize) / page;
    const uintptr_t end = (start + (done + n) * kNativePageSize - 1) / page + 1;
    const auto bytes = static_cast<long>((end - first) * sizeof(uint64_t));
    if (raw::Call(SYS_pread64, fd, raw::Word(entries), bytes,
                  static_cast<long>(first * sizeof(uint64_t))) != bytes)
      break;
    for (size_t i = 0; i < n; ++i) {
      const uintptr_t at = (start + (done + i) * kNativePageSize) / page - first;
      one_byte_a_page[done + i] = static_cast<unsigned char>(entries[at] >> 63);  // present
    }
    done += n;
  }
  raw::Close(fd);
  return done == native_pages;
}

bool IsInDataSegmentHeap(const void* p) {
  const auto address = reinterpret_cast<uintptr_t>(p);
  bool found = false;
  ForEachLine("/proc/self/maps", [&](const char* line) {
    const char* at = line;
    const uintptr_t from = ParseHex(at);
    if (*at != '-') return;
    ++at;
    const uintptr_t to = ParseHex(at);
    found |= address >= from && address < to && strstr(line, "[heap]") != nullptr;
  });
  return found;
}

}  // namespace strata
