// Upstream: a source over a std::pmr::memory_resource, which a heap then takes its chunks from;
// what the resource throws for lack of memory is null here. For one thread, whatever the resource
// is for.
#pragma once

#include <memory_resource>
#include <new>

#include "strata/layers/heap.h"

namespace strata::layers {

class Upstream {
 public:
  static constexpr size_t alignment = kDefaultAlignment;
  static constexpr bool thread_safe = false;
  static constexpr bool blocks_stand_alone = true;

  Upstream() : Upstream(std::pmr::get_default_resource()) {}
  explicit Upstream(std::pmr::memory_resource* resource) : resource_(resource) {}

  void* allocate(size_t size) {
    if (size > kMaxRequest) return nullptr;
#if defined(__cpp_exceptions)
    try {
      return resource_->allocate(size, alignment);
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
#else
    return resource_->allocate(size, alignment);
#endif
  }
  void deallocate(void* p, size_t size) { resource_->deallocate(p, size, alignment); }
  std::pmr::memory_resource* resource() const { return resource_; }

 private:
  std::pmr::memory_resource* resource_;
};

}  // namespace strata::layers
