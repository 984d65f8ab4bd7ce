// Memory of the replayer's own, taken from the kernel and never from the heap that is measured, and
// what the kernel says of the process's memory.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace strata::replay {

[[noreturn]] inline void Fail(const char* name, const char* what) {
  for (const char* part : {"strata-replay: ", name, what, "\n"})
    if (write(2, part, strlen(part)) < 0) break;
  _exit(1);
}

// `n` elements, zero at first. Every page of one that was Filled is resident from then on.
template <class T>
class Array {
 public:
  Array() = default;
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { Free(); }

  void Make(size_t n) {
    if (n == 0) n = 1;
    void* p = n > PTRDIFF_MAX / sizeof(T) ? MAP_FAILED
                                          : mmap(nullptr, n * sizeof(T), PROT_READ | PROT_WRITE,
                                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) Fail("", "no memory for a trace of this size");
    data_ = static_cast<T*>(p);
    size_ = n;
  }
  void Fill(int byte) { memset(static_cast<void*>(data_), byte, size_ * sizeof(T)); }
  void Free() {
    if (data_ != nullptr) munmap(data_, size_ * sizeof(T));
    data_ = nullptr;
    size_ = 0;
  }
  T& operator[](size_t i) { return data_[i]; }
  size_t size() const { return size_; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

// The figure in bytes that `file` of /proc gives behind `key`, such as "Rss:".
inline uint64_t ProcFigure(const char* file, const char* key) {
  char text[8192];
  const int fd = open(file, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t n = read(fd, text, sizeof(text) - 1);
  close(fd);
  text[n > 0 ? n : 0] = '\0';
  const char* found = strstr(text, key);
  return found == nullptr ? 0 : strtoull(found + strlen(key), nullptr, 10) * 1024;
}

// Exact, unlike statm, whose counters recent kernels keep for each CPU.
inline uint64_t Resident() { return ProcFigure("/proc/self/smaps_rollup", "\nRss:"); }
inline uint64_t PeakResident() { return ProcFigure("/proc/self/status", "\nVmHWM:"); }
inline void ForgetPeak() {
  const int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  [[maybe_unused]] const ssize_t ignored = write(fd, "5", 1);
  close(fd);
}

}  // namespace strata::replay
