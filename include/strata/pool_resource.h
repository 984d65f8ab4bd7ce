// strata::pool_resource: a std::pmr pool for many threads without a lock on its path. Each thread
// has size-class free lists of its own over chunks of its own; a block that another thread frees
// goes to the inbox of the list it came from. release() and the destructor give all of it back to
// the upstream resource at once. Composed of layers (strata/layers); needs no part of libstrata.
//
// Compare std::pmr::synchronized_pool_resource, which is the same idea with a lock on each path.
#pragma once

#if __cplusplus < 202002L
#error "strata/pool_resource.h needs C++20: compile with -std=c++20"
#else

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <mutex>
#include <new>
#include <utility>

#include "strata/layers/combine/bins.h"
#include "strata/layers/combine/bump.h"
#include "strata/layers/combine/free_list.h"
#include "strata/layers/combine/listed.h"
#include "strata/layers/thread/inbox.h"
#include "strata/layers/thread/index.h"
#include "strata/layers/thread/locked.h"
#include "strata/out_of_memory.h"

namespace strata {

// allocate and deallocate: any thread, any time. release(), construction and destruction: no other
// thread uses the resource meanwhile. Blocks of up to largest_pooled bytes are pooled; larger ones
// go upstream. The upstream resource may be one for a single thread: it is called under a lock.
class pool_resource : public std::pmr::memory_resource {
  using Classes = layers::Geometric<8192>;
  class Pool;

 public:
  static constexpr std::size_t largest_pooled = Classes::largest;

  pool_resource() : pool_resource(std::pmr::get_default_resource()) {}
  explicit pool_resource(std::pmr::memory_resource* upstream)
      : upstream_(upstream), slabs_(&upstream_), large_(&upstream_) {}
  ~pool_resource() override { release(); }
  pool_resource(const pool_resource&) = delete;
  pool_resource& operator=(const pool_resource&) = delete;

  void release() {
    for (Pool*& pool : pools_) End(pool);
    End(shared_);
    slabs_.Release();
    large_.clear();
  }

  std::pmr::memory_resource* upstream_resource() const { return upstream_.resource(); }

 private:
  using Slot = layers::ThreadIndex;

  // All calls of the upstream resource, of which it sees one at a time.
  class Upstream {
   public:
    explicit Upstream(std::pmr::memory_resource* resource) : resource_(resource) {}
    void* allocate(size_t size, size_t alignment) {
      const std::lock_guard hold(lock_);
      return resource_->allocate(size, alignment);
    }
    void deallocate(void* p, size_t size, size_t alignment) {
      const std::lock_guard hold(lock_);
      resource_->deallocate(p, size, alignment);
    }
    std::pmr::memory_resource* resource() const { return resource_; }

   private:
    std::pmr::memory_resource* resource_;
    layers::FutexLock lock_;
  };

  // Where all pools' chunks come from. Each is aligned to its size, which may cost the upstream
  // resource as much again (a reap's blocks have a tag in front), so they are cut from slabs: of
  // half of what there is, up to a mebibyte.
  class Slabs {
   public:
    static constexpr size_t kChunk = 64 << 10;

    explicit Slabs(Upstream* upstream) : upstream_(upstream) {}
    void* Take() {
      const std::lock_guard hold(lock_);
      if (free_ != nullptr) return std::exchange(free_, free_->next);
      if (at_ == end_) Grow();
      return std::exchange(at_, at_ + kChunk);
    }
    void Give(void* chunk) {
      const std::lock_guard hold(lock_);
      free_ = ::new (chunk) Free{free_};
    }
    // When all chunks are free.
    void Release() {
      while (slabs_ != nullptr) {
        Slab* slab = std::exchange(slabs_, slabs_->next);
        char* start = reinterpret_cast<char*>(slab) - kSlabAt;
        upstream_->deallocate(start, slab->bytes, kChunk);
      }
      free_ = nullptr;
      at_ = end_ = nullptr;
      bytes_ = 0;
    }

   private:
    struct Free {
      Free* next;
    };
    // In the first chunk's header, behind what the chunk itself has there.
    struct Slab {
      Slab* next;
      size_t bytes;
    };
    static constexpr size_t kSlabAt = 16;

    void Grow() {
      const size_t bytes = std::clamp(bytes_ / 2 / kChunk, size_t{1}, size_t{16}) * kChunk;
      at_ = static_cast<char*>(upstream_->allocate(bytes, kChunk));
      end_ = at_ + bytes;
      slabs_ = ::new (at_ + kSlabAt) Slab{slabs_, bytes};
      bytes_ += bytes;
    }

    Upstream* upstream_;
    layers::FutexLock lock_;
    Free* free_ = nullptr;
    Slab* slabs_ = nullptr;
    char* at_ = nullptr;  // of the newest slab, what was not handed out yet
    char* end_ = nullptr;
    size_t bytes_ = 0;
  };

  // Whole chunks, so that any address in one leads to the pool that it belongs to.
  class Chunks {
   public:
    static constexpr size_t kSize = Slabs::kChunk;
    static constexpr size_t kHeader = 64;  // a cache line, so that blocks start on one
    static constexpr size_t kUsable = kSize - kHeader;
    static constexpr size_t alignment = layers::kDefaultAlignment;
    static constexpr bool thread_safe = false;

    Chunks(Slabs* slabs, Pool* owner) : slabs_(slabs), owner_(owner) {}
    void* allocate(size_t) {
      void* raw = slabs_->Take();
      *static_cast<Pool**>(raw) = owner_;
      return static_cast<char*>(raw) + kHeader;
    }
    void deallocate(void* p, size_t) { slabs_->Give(static_cast<char*>(p) - kHeader); }
    static Pool* OwnerOf(void* p) {
      return *reinterpret_cast<Pool**>(reinterpret_cast<uintptr_t>(p) & ~(kSize - 1));
    }

   private:
    Slabs* slabs_;
    Pool* owner_;
  };

  // What one thread uses: owned by whoever has its slot.
  class alignas(64) Pool {
    using Heap = layers::Stack<layers::Bins<Classes, layers::FreeList, layers::Inbox>,
                               layers::Bump<Chunks::kUsable>, Chunks>;

   public:
    explicit Pool(Slabs* slabs) : heap_(slabs, this) {}
    ~Pool() { heap_.clear(); }  // no free block goes back alone: they go with their chunks

    void* allocate(size_t size) { return heap_.allocate(size); }
    void deallocate(void* p, size_t size) { heap_.deallocate(p, size); }
    void Return(void* p, size_t size) { heap_.bin(Classes::of(size)).next().give_back(p); }

   private:
    Heap heap_;
  };

  // Blocks as they come from upstream.
  class Whole {
   public:
    static constexpr size_t alignment = layers::kDefaultAlignment;
    static constexpr bool thread_safe = true;
    explicit Whole(Upstream* upstream) : upstream_(upstream) {}
    void* allocate(size_t size) { return upstream_->allocate(size, alignment); }
    void deallocate(void* p, size_t size) { upstream_->deallocate(p, size, alignment); }

   private:
    Upstream* upstream_;
  };

  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (alignment > layers::kDefaultAlignment) [[unlikely]]
      return AllocateAligned(bytes, alignment);
    return Allocate(bytes);
  }
  void do_deallocate(void* p, std::size_t bytes, std::size_t alignment) override {
    if (alignment > layers::kDefaultAlignment) [[unlikely]]
      return Deallocate(static_cast<void**>(p)[-1], bytes + alignment);
    Deallocate(p, bytes);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  void* Allocate(size_t bytes) {
    const size_t slot = Slot::index();
    Pool* mine = pools_[slot];
    if (bytes > largest_pooled || mine == nullptr) [[unlikely]]
      return AllocateSlow(bytes, slot);
    return mine->allocate(bytes);
  }
  void Deallocate(void* p, size_t bytes) {
    if (bytes > largest_pooled) [[unlikely]]
      return large_.deallocate(p, bytes);
    Pool* owner = Chunks::OwnerOf(p);
    if (owner == pools_[Slot::index()]) [[likely]]
      return owner->deallocate(p, bytes);
    owner->Return(p, bytes);
  }

  [[gnu::noinline]] void* AllocateSlow(size_t bytes, size_t slot) {
    if (bytes > largest_pooled) {
      void* p = large_.allocate(bytes);
      if (p == nullptr) internal::ThrowOutOfMemory();
      return p;
    }
    if (slot != Slot::most) return Made(pools_[slot])->allocate(bytes);
    const std::lock_guard hold(shared_lock_);
    return Made(shared_)->allocate(bytes);
  }
  Pool* Made(Pool*& pool) {
    if (pool == nullptr)
      pool = ::new (upstream_.allocate(sizeof(Pool), alignof(Pool))) Pool(&slabs_);
    return pool;
  }
  void End(Pool*& pool) {
    if (pool == nullptr) return;
    pool->~Pool();
    upstream_.deallocate(pool, sizeof(Pool), alignof(Pool));
    pool = nullptr;
  }

  // A larger block, with the place where that begins in front of the aligned part.
  void* AllocateAligned(size_t bytes, size_t alignment) {
    if (bytes > layers::kMaxRequest - alignment) internal::ThrowOutOfMemory();
    auto* block = static_cast<char*>(Allocate(bytes + alignment));
    const auto end = reinterpret_cast<uintptr_t>(block) + alignment;
    auto** p = reinterpret_cast<void**>(end & ~(alignment - 1));
    p[-1] = block;
    return p;
  }

  Upstream upstream_;
  Slabs slabs_;
  // Each is used by the thread with that slot alone; the last is always null.
  Pool* pools_[Slot::most + 1] = {};
  // Of the threads without a slot, under the lock; what they free always goes to inboxes.
  Pool* shared_ = nullptr;
  layers::FutexLock shared_lock_;
  layers::Stack<layers::Locked, layers::Listed, Whole> large_;
};

}  // namespace strata

#endif  // C++20
