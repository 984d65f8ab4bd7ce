// A growing array in pages of its own: what a profile is put together in, taken from the kernel and
// not from the heap that the profile is about. Grows with mremap, so a large one is not copied.
// Sits in profile.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <type_traits>

#include "base/errno_keeper.h"

namespace strata {

template <class T>
class ScratchArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  ScratchArray() = default;
  ScratchArray(const ScratchArray&) = delete;
  ScratchArray& operator=(const ScratchArray&) = delete;
  ~ScratchArray() { Free(); }

  // Room for `n` more elements, which are zero until written for the first time. False: no memory.
  bool Reserve(size_t n) {
    if (n <= capacity_ - size_) return true;
    if (n > kMaxBytes / sizeof(T) - size_) return false;
    size_t bytes = capacity_ == 0 ? kFirstBytes : capacity_ * sizeof(T);
    while (bytes < (size_ + n) * sizeof(T)) bytes *= 2;
    const ErrnoKeeper keep_errno;
    void* p = capacity_ == 0
                  ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                  : mremap(data_, mapped_, bytes, MREMAP_MAYMOVE);
    if (p == MAP_FAILED) return false;
    data_ = static_cast<T*>(p);
    mapped_ = bytes;
    capacity_ = bytes / sizeof(T);
    return true;
  }

  bool Append(const T& value) {
    if (!Reserve(1)) return false;
    data_[size_++] = value;
    return true;
  }

  bool Append(const T* values, size_t n) {
    if (!Reserve(n)) return false;
    for (size_t i = 0; i < n; ++i) data_[size_ + i] = values[i];
    size_ += n;
    return true;
  }

  // Makes it `n` elements long if it is shorter; new ones are zero until written for the first
  // time. False: no memory.
  bool Extend(size_t n) {
    if (n <= size_) return true;
    if (!Reserve(n - size_)) return false;
    size_ = n;
    return true;
  }

  // To be called with what was written into the room that Reserve made.
  void Grow(size_t n) { size_ += n; }
  void Clear() { size_ = 0; }
  // Drops what lies behind the first `n`, of those there are.
  void Shrink(size_t n) { size_ = n; }
  void Free() {
    const ErrnoKeeper keep_errno;
    if (capacity_ != 0) munmap(data_, mapped_);
    data_ = nullptr;
    size_ = capacity_ = mapped_ = 0;
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }
  size_t mapped_bytes() const { return mapped_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }

 private:
  static constexpr size_t kFirstBytes = size_t{16} << 10;
  static constexpr size_t kMaxBytes = size_t{1} << 40;

  T* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
  size_t mapped_ = 0;  // bytes
};

}  // namespace strata
