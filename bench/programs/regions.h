// The three kinds of memory that region-style programs can use, with one interface: a pure bump
// region, a reap, and malloc with a free for each object. kWhole says whether end() takes all.
#pragma once

#include <new>

#include "common.h"
#include "strata/reap.h"

namespace bench {

// As plain as regions get, and as fast: aligned to 16, no header, chunks that double as a reap's
// do. What is freed stays.
class BumpRegion {
 public:
  static constexpr bool kWhole = true;
  ~BumpRegion() { End(); }
  void Begin() {}
  void* Allocate(size_t size) {
    const size_t bytes = (size + 15) & ~size_t{15};
    if (bytes > static_cast<size_t>(end_ - at_)) [[unlikely]]
      return AllocateSlow(bytes);
    char* p = at_;
    at_ += bytes;
    return p;
  }
  void Free(void*) {}
  void End() {
    while (chunks_ != nullptr) {
      Chunk* next = chunks_->next;
      free(chunks_);
      chunks_ = next;
    }
    at_ = end_ = nullptr;
    held_ = 0;
  }
  size_t Held() const { return held_; }

 private:
  struct alignas(16) Chunk {
    Chunk* next;
  };
  [[gnu::noinline]] void* AllocateSlow(size_t bytes) {
    size_t size = held_<(8 << 10) ? 8 << 10 : held_>(128 << 10) ? 128 << 10 : 8 << 10;
    while (size < held_ && size < (128 << 10)) size *= 2;
    while (size < bytes + sizeof(Chunk)) size *= 2;
    auto* c = static_cast<Chunk*>(CheckedMalloc(size));
    c->next = chunks_;
    chunks_ = c;
    held_ += size;
    at_ = reinterpret_cast<char*>(c + 1) + bytes;
    end_ = reinterpret_cast<char*>(c) + size;
    return c + 1;
  }

  char* at_ = nullptr;
  char* end_ = nullptr;
  Chunk* chunks_ = nullptr;
  size_t held_ = 0;
};

class ReapRegion {
 public:
  static constexpr bool kWhole = true;
  ~ReapRegion() { strata_reap_destroy(reap_); }
  void Begin() {
    if (reap_ == nullptr) reap_ = strata_reap_create(nullptr);
  }
  void* Allocate(size_t size) {
    void* p = strata_reap_malloc_inline(reap_, size);
    if (p == nullptr) Die("the reap gave null");
    return p;
  }
  void Free(void* p) { strata_reap_free_inline(reap_, p); }
  void End() { strata_reap_clear(reap_); }
  size_t Held() const { return strata_reap_held(reap_); }

 private:
  strata_reap* reap_ = nullptr;
};

class MallocFree {
 public:
  static constexpr bool kWhole = false;
  void Begin() {}
  void* Allocate(size_t size) { return CheckedMalloc(size); }
  void Free(void* p) { free(p); }
  void End() {}
  size_t Held() const { return 0; }
};

// Calls run.operator()<Memory>() for the one named by --heap.
template <class Run>
auto WithMemory(const char* heap, Run run) {
  if (strcmp(heap, "bump") == 0) return run.template operator()<BumpRegion>();
  if (strcmp(heap, "reap") == 0) return run.template operator()<ReapRegion>();
  if (strcmp(heap, "malloc") == 0) return run.template operator()<MallocFree>();
  Die("--heap: bump, reap or malloc");
}

}  // namespace bench
