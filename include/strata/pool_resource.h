// strata::pool_resource: a std::pmr pool for many threads without a lock on its path. Each thread
// has size-class free lists of its own over pages of its own; a block that another thread frees
// goes to the inbox of the list it came from. release() and the destructor give all of it back to
// the upstream resource at once. Composed of layers (strata/layers); needs no part of libstrata.
//
// Compare std::pmr::synchronized_pool_resource, which is the same idea with a lock on each path.
#pragma once

#if __cplusplus < 202002L
#error "strata/pool_resource.h needs C++20: compile with -std=c++20"
#else

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <mutex>
#include <new>
#include <utility>

#include "strata/layers/combine/bins.h"
#include "strata/layers/combine/free_list.h"
#include "strata/layers/combine/listed.h"
#include "strata/layers/detail/misuse.h"
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
  static constexpr size_t kShared = Slot::most + 1;  // as an owner

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

  // Whose each page is: a table that threads read without a lock, while one adds to it under the
  // lock of the slabs. Pages are entered before anything in them is handed out, so whoever has a
  // block finds its page.
  class Owners {
   public:
    static constexpr size_t kPageShift = 12;

    constexpr Owners() = default;
    // Of a block of at most largest_pooled bytes.
    size_t Of(const void* p) const {
      const auto page = reinterpret_cast<uintptr_t>(p) >> kPageShift;
      // acquire: pairs with the release in Grow.
      const Table* t = table_.load(std::memory_order_acquire);
      const uintptr_t entry = t->At(t->First(page));
      return entry >> kPageShift == page ? entry & kMask : FindFurther(t, page);
    }
    // Of each page that begins or goes on between them; all or, where upstream throws, none.
    void Add(Upstream* upstream, const char* from, const char* end, size_t owner) {
      auto page = reinterpret_cast<uintptr_t>(from) & ~kMask;
      const auto beyond = reinterpret_cast<uintptr_t>(end);
      const size_t more = (beyond - page + kMask) >> kPageShift;
      Table* t = table_.load(std::memory_order_relaxed);
      while (used_ + more > t->size() / 4 * 3) t = Grow(upstream, t);
      for (; page < beyond; page += kMask + 1) t->Enter(page | owner);
      used_ += more;
    }
    void Release(Upstream* upstream) {
      Table* t = table_.load(std::memory_order_relaxed);
      while (t != &first_) {
        Table* older = t->older;
        upstream->deallocate(t, Table::Bytes(t->size()), alignof(Table));
        t = older;
      }
      for (std::atomic<uintptr_t>& entry : in_first_) entry.store(0, std::memory_order_relaxed);
      table_.store(t, std::memory_order_relaxed);
      used_ = 0;
    }

   private:
    static constexpr uintptr_t kMask = (uintptr_t{1} << kPageShift) - 1;
    static_assert(kShared <= kMask, "an owner has no room beside the page's address");
    static constexpr unsigned kFirstBits = 6;

    // Open addressing. An entry is the page's address and the owner in its lowest bits; 0: none.
    struct Table {
      std::atomic<uintptr_t>* entries;
      unsigned shift;
      Table* older;

      static constexpr size_t Bytes(size_t size) {
        return sizeof(Table) + size * sizeof(std::atomic<uintptr_t>);
      }
      size_t size() const { return size_t{1} << (64 - shift); }
      size_t First(uintptr_t page) const { return (page * 0x9e3779b97f4a7c15u) >> shift; }
      uintptr_t At(size_t i) const { return entries[i].load(std::memory_order_relaxed); }
      size_t Next(size_t i) const { return (i + 1) & (size() - 1); }
      void Enter(uintptr_t entry) {
        size_t i = First(entry >> kPageShift);
        while (At(i) != 0) i = Next(i);
        entries[i].store(entry, std::memory_order_relaxed);
      }
    };

    [[gnu::noinline]] static size_t FindFurther(const Table* t, uintptr_t page) {
      for (size_t i = t->Next(t->First(page));; i = t->Next(i)) {
        const uintptr_t entry = t->At(i);
        if (entry >> kPageShift == page) return entry & kMask;
        if (entry == 0) layers::DieOfMisuse(" pool_resource", "a block of another resource");
      }
    }
    // The old one stays, for who looks into it now.
    Table* Grow(Upstream* upstream, Table* old) {
      const size_t size = 2 * old->size();
      void* raw = upstream->allocate(Table::Bytes(size), alignof(Table));
      auto* entries = reinterpret_cast<std::atomic<uintptr_t>*>(static_cast<Table*>(raw) + 1);
      for (size_t i = 0; i < size; ++i) ::new (entries + i) std::atomic<uintptr_t>(0);
      auto* t = ::new (raw) Table{entries, old->shift - 1, old};
      for (size_t i = 0; i < old->size(); ++i) {
        if (old->At(i) != 0) t->Enter(old->At(i));
      }
      table_.store(t, std::memory_order_release);
      return t;
    }

    std::atomic<uintptr_t> in_first_[size_t{1} << kFirstBits] = {};
    Table first_{in_first_, 64 - kFirstBits, nullptr};
    std::atomic<Table*> table_{&first_};
    size_t used_ = 0;
  };

  // Where all pools' memory comes from: runs of pages, cut from slabs: of one page while there is
  // little, then of an eighth of what there is, up to a mebibyte. A slab begins where a page does
  // and ends a little before one, so that upstream resources with records of their own between
  // blocks, as reaps, lay one behind another.
  class Slabs {
   public:
    static constexpr size_t kPage = size_t{1} << Owners::kPageShift;

    struct Run {
      char* at;
      char* end;
    };

    explicit Slabs(Upstream* upstream) : upstream_(upstream) {}
    // For so many bytes, and more if there is more, up to `wanted`. It is the owner's then.
    Run Take(size_t least, size_t wanted, size_t owner) {
      const std::lock_guard hold(lock_);
      if (static_cast<size_t>(end_ - at_) < least) Grow(least);
      char* const from = at_;
      char* end = from + std::max(least, wanted);
      end += (0 - reinterpret_cast<uintptr_t>(end)) & (kPage - 1);  // no page is two owners'
      end = std::min(end, end_);
      owners_.Add(upstream_, from, end, owner);
      at_ = end;
      return {from, end};
    }
    size_t OwnerOf(const void* p) const { return owners_.Of(p); }
    // When nothing in them is used any more.
    void Release() {
      while (slabs_ != nullptr) {
        Slab* slab = std::exchange(slabs_, slabs_->next);
        upstream_->deallocate(slab, slab->bytes, kPage);
      }
      owners_.Release(upstream_);
      at_ = end_ = nullptr;
      bytes_ = 0;
    }

   private:
    struct alignas(64) Slab {  // blocks begin behind it, on a cache line
      Slab* next;
      size_t bytes;
    };
    static constexpr size_t kTail = 32;
    // Pages of a slab. Alignment costs a large block a page, so one of a few is dear.
    static constexpr size_t kFewest = 8;
    static constexpr size_t kMost = 256;

    void Grow(size_t least) {
      size_t pages = bytes_ / 8 / kPage;
      pages = pages < kFewest ? 1 : std::min(pages, kMost);
      while (pages * kPage - kTail - sizeof(Slab) < least) ++pages;
      const size_t bytes = pages * kPage - kTail;
      auto* slab = ::new (upstream_->allocate(bytes, kPage)) Slab{slabs_, bytes};
      slabs_ = slab;
      bytes_ += bytes;
      at_ = reinterpret_cast<char*>(slab + 1);
      end_ = reinterpret_cast<char*>(slab) + bytes;
    }

    Upstream* upstream_;
    layers::FutexLock lock_;
    Slab* slabs_ = nullptr;
    char* at_ = nullptr;  // of the newest slab, what was not handed out yet
    char* end_ = nullptr;
    size_t bytes_ = 0;
    Owners owners_;
  };

  // New blocks of one pool, one behind another. No block goes back alone.
  class Blocks {
   public:
    static constexpr size_t alignment = layers::kDefaultAlignment;
    static constexpr bool thread_safe = false;

    Blocks(Slabs* slabs, size_t owner) : slabs_(slabs), owner_(owner) {}
    void* allocate(size_t size) {
      if (size > static_cast<size_t>(run_.end - run_.at)) [[unlikely]]
        return AllocateSlow(size);
      return std::exchange(run_.at, run_.at + size);
    }
    void deallocate(void*, size_t) {}
    void clear() {}  // what is kept above goes with the slabs

   private:
    [[gnu::noinline]] void* AllocateSlow(size_t size) {
      Slabs::Run fresh = slabs_->Take(size, std::min(taken_ / 16, size_t{64} << 10), owner_);
      taken_ += static_cast<size_t>(fresh.end - fresh.at);
      char* const p = std::exchange(fresh.at, fresh.at + size);
      if (fresh.end - fresh.at > run_.end - run_.at) run_ = fresh;
      return p;
    }

    Slabs* slabs_;
    size_t owner_;
    Slabs::Run run_{};
    size_t taken_ = 0;  // bytes
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

  // What one thread uses: owned by whoever has its slot.
  class alignas(64) Pool {
    using Heap = layers::Stack<layers::Bins<Classes, layers::FreeList, layers::Inbox>, Blocks>;

   public:
    Pool(Slabs* slabs, size_t number) : heap_(slabs, number) {}
    ~Pool() { heap_.clear(); }  // no free block goes back alone: they go with what they lie in

    void* allocate(size_t size) { return heap_.allocate(size); }
    void deallocate(void* p, size_t size) { heap_.deallocate(p, size); }
    void Return(void* p, size_t size) { heap_.bin(Classes::of(size)).next().give_back(p); }

   private:
    Heap heap_;
  };

  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (alignment > layers::kDefaultAlignment) [[unlikely]]
      return AllocateAligned(bytes, alignment);
    return Allocate(bytes);
  }
  void do_deallocate(void* p, std::size_t bytes, std::size_t alignment) override {
    if (alignment > layers::kDefaultAlignment) [[unlikely]]
      return Deallocate(static_cast<void**>(p)[-1], layers::AtLeastAByte(bytes) + alignment);
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
    const size_t owner = slabs_.OwnerOf(p);
    if (owner == Slot::index()) [[likely]]
      return pools_[owner]->deallocate(p, bytes);
    (owner == kShared ? shared_ : pools_[owner])->Return(p, bytes);
  }

  [[gnu::noinline]] void* AllocateSlow(size_t bytes, size_t slot) {
    if (bytes > largest_pooled) {
      void* p = large_.allocate(bytes);
      if (p == nullptr) internal::ThrowOutOfMemory();
      return p;
    }
    if (slot != Slot::most) return Made(pools_[slot], slot)->allocate(bytes);
    const std::lock_guard hold(shared_lock_);
    return Made(shared_, kShared)->allocate(bytes);
  }
  Pool* Made(Pool*& pool, size_t number) {
    if (pool == nullptr)
      pool = ::new (upstream_.allocate(sizeof(Pool), alignof(Pool))) Pool(&slabs_, number);
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
    auto* block = static_cast<char*>(Allocate(layers::AtLeastAByte(bytes) + alignment));
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
