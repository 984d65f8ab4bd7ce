// What the program's addresses were mapped to, in the order in which that came about: what QEMU's
// loader made is in one copy of /proc/self/maps, the rest in the program's own system calls. Sits
// in tools/pageutil.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>

#include "shared_file.h"

namespace strata::pageutil {

class MappingLog {
 public:
  explicit MappingLog(SharedFile& file) : file_(file) {}

  void Snapshot() {
    const int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (maps < 0) return;
    const std::lock_guard hold(lock_);
    const uint64_t begin = file_.header()->text.load(std::memory_order_relaxed);
    uint64_t at = begin;
    char* const text = file_.area<char>(kTextArea);
    while (at < kMostText) {
      const ssize_t n = read(maps, text + at, kMostText - at);
      if (n <= 0) break;
      at += static_cast<uint64_t>(n);
    }
    close(maps);
    file_.header()->text.store(at, std::memory_order_relaxed);
    Add({EventKind::kSnapshot, 0, 0, 0, 0, begin, at - begin});
  }

  // A call that succeeded. The arguments are those that it was made with.
  void Called(int64_t number, const uint64_t* a, uint64_t result) {
    const std::lock_guard hold(lock_);
    switch (number) {
      case SYS_mmap:
        return Mapped(result, a[1], a[3], static_cast<int>(a[4]), a[5]);
      case SYS_mremap:
        return Add({EventKind::kMove, result, a[2], a[0], 0, 0, 0});
      case SYS_brk:
        return Add({EventKind::kBreak, result, 0, 0, 0, 0, 0});
      default:
        return;
    }
  }
  static bool Concerns(int64_t number) {
    return number == SYS_mmap || number == SYS_mremap || number == SYS_brk;
  }

 private:
  void Mapped(uint64_t start, uint64_t size, uint64_t flags, int file, uint64_t offset) {
    Event event{EventKind::kMap, start, size, flags, offset, 0, 0};
    if ((flags & MAP_ANONYMOUS) == 0) {
      char name[64];
      snprintf(name, sizeof(name), "/proc/self/fd/%d", file);  // the program's number is QEMU's
      const uint64_t at = file_.header()->text.load(std::memory_order_relaxed);
      char* const text = file_.area<char>(kTextArea) + at;
      const ssize_t n = readlink(name, text, kMostText - at);
      event.text = at;
      event.text_length = n > 0 ? static_cast<uint64_t>(n) : 0;
      file_.header()->text.store(at + event.text_length, std::memory_order_relaxed);
    }
    Add(event);
  }

  void Add(const Event& event) {
    Header* const header = file_.header();
    const uint64_t at = header->events.load(std::memory_order_relaxed);
    if (at == kMostEvents) {
      header->lost.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    file_.area<Event>(kEventArea)[at] = event;
    header->events.store(at + 1, std::memory_order_release);
  }

  SharedFile& file_;
  std::mutex lock_;
};

}  // namespace strata::pageutil
