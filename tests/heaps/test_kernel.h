// The fake kernel with what StrataHeap asks for on top: an address for the heap and the two arrays
// of the page map. The window's addresses stand for pages of the fake; a test says by Touch what a
// program writes there.
#pragma once

#include <sys/mman.h>

#include <vector>

#include "base/check.h"
#include "base/lock.h"
#include "os/fake_kernel.h"
#include "span/page_map.h"

namespace strata::test {

class TestKernel : public FakeKernel {
 public:
  explicit TestKernel(HugePages window)
      : FakeKernel(window),
        entries_(PagesOf(window).raw()),
        spans_(PagesOf(window).raw()),
        bytes_(BytesOf(window)) {
    memory_ = mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    STRATA_CHECK(memory_ != MAP_FAILED);
  }
  ~TestKernel() { munmap(memory_, bytes_); }

  uintptr_t base() const { return reinterpret_cast<uintptr_t>(memory_); }
  void* side_array(size_t i) {
    return i == PageMap::kEntries ? static_cast<void*>(entries_.data()) : spans_.data();
  }
  Lock& lock() { return lock_; }

  using FakeKernel::Touch;
  // Writes `tag` into every native page of the block.
  void Touch(const void* block, size_t bytes, uint32_t tag) {
    const size_t offset = reinterpret_cast<uintptr_t>(block) - base();
    for (size_t p = offset >> kNativePageShift; p <= (offset + bytes - 1) >> kNativePageShift; ++p)
      Write(p, tag);
  }
  bool Holds(const void* block, size_t bytes, uint32_t tag) const {
    const size_t offset = reinterpret_cast<uintptr_t>(block) - base();
    for (size_t p = offset >> kNativePageShift; p <= (offset + bytes - 1) >> kNativePageShift;
         ++p) {
      if (Read(p) != tag) return false;
    }
    return true;
  }

 private:
  std::vector<PageEntry> entries_;
  std::vector<Span*> spans_;
  size_t bytes_;
  void* memory_;
  Lock lock_{LockRank::kMetadata};
};

}  // namespace strata::test
