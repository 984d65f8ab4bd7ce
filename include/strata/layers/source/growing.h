// Growing: a source. Reserves kReserve bytes of address space once and hands out consecutive parts
// of it, as sbrk did, so that a heap above can let its last region grow (Coalesce does). Its end
// can be given back with shrink(); other blocks go back to the kernel but keep their addresses.
#pragma once

#include <errno.h>
#include <sys/mman.h>

#include "strata/layers/heap.h"

namespace strata::layers {

template <size_t kReserve = size_t{64} << 30>
class Growing {
 public:
  static constexpr size_t alignment = 4096;
  static constexpr bool thread_safe = false;
  static constexpr bool divisible = true;  // see Mmap

  Growing() = default;
  ~Growing() {
    if (base_ != nullptr) munmap(base_, kReserve);
  }
  Growing(const Growing&) = delete;
  Growing& operator=(const Growing&) = delete;

  void* allocate(size_t size) {
    if (size > kReserve || !Reserve()) return nullptr;
    const size_t bytes = RoundUpBlock(size, alignment);
    if (bytes > kReserve - used_) return nullptr;
    char* p = base_ + used_;
    const int before = errno;
    if (mprotect(p, bytes, PROT_READ | PROT_WRITE) != 0) {
      errno = before;
      return nullptr;
    }
    used_ += bytes;
    return p;
  }
  void deallocate(void* p, size_t size) {
    const size_t bytes = RoundUpBlock(size, alignment);
    if (static_cast<char*>(p) + bytes == base_ + used_) return shrink(p, bytes);
    Drop(p, bytes);
  }
  // The last `bytes`, which begin at p, are not in use any more.
  void shrink(void* p, size_t bytes) {
    used_ -= bytes;
    Drop(p, bytes);
  }
  bool owns(const void* p) const {
    const auto at = reinterpret_cast<uintptr_t>(p) - reinterpret_cast<uintptr_t>(base_);
    return base_ != nullptr && at < used_;
  }
  size_t used() const { return used_; }

 private:
  static void Drop(void* p, size_t bytes) {
    const int before = errno;
    madvise(p, bytes, MADV_DONTNEED);
    errno = before;
  }
  bool Reserve() {
    if (base_ != nullptr) return true;
    const int before = errno;
    void* p =
        mmap(nullptr, kReserve, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
      errno = before;
      return false;
    }
    base_ = static_cast<char*>(p);
    return true;
  }

  char* base_ = nullptr;
  size_t used_ = 0;
};

}  // namespace strata::layers
