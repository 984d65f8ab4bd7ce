// ThreadBuffers: lists of free blocks for each thread, over a heap that hands them out in batches,
// such as Hoard: most calls then take no lock. A block is kept only if it belongs to the heap that
// the thread last took blocks of its class from, so what another processor's heap cut from a
// cache line that is in use there is not handed out here; all others go straight home. What a
// thread keeps is bounded for each class, and goes home when the thread ends.
#pragma once

#include <algorithm>

#include "strata/layers/combine/classes.h"
#include "strata/layers/combine/free_list.h"
#include "strata/layers/detail/freed_mark.h"
#include "strata/layers/heap.h"
#include "strata/layers/thread/of_thread.h"

namespace strata::layers {

// One heap of a type has buffers, the first that is used; others of the same type do without. The
// thread's state is one pointer. After the thread-local buffers of Hoard's source of December 2025
// (emeryberger/Hoard), which keep what comes, whoever it belongs to.
template <size_t kLargest = 1024, size_t kClassBytes = 16384, class Thread = OfThread>
struct ThreadBuffers {
  template <Heap Below>
  class On : public Over<Below> {
    static constexpr bool kOverHoard = requires { typename Below::Bin; };
    static_assert(kOverHoard, "ThreadBuffers needs a Hoard below it");
    using Classes = typename internal::ClassesOfHeap<Below>::type;
    static_assert(!kOverHoard || kLargest <= Classes::largest,
                  "ThreadBuffers: the largest size must be one of the superblocks'");
    static constexpr size_t kClasses = Classes::of(kLargest) + 1;
    static constexpr size_t kMostBlocks = 128;

   public:
    // Of one class, in one thread.
    static constexpr size_t most_blocks(size_t c) {
      return std::clamp<size_t>(kClassBytes / Classes::size(c), 8, kMostBlocks);
    }
    // Of all classes, in bytes: what a thread may add to what is in use of the heap below.
    static constexpr size_t most_bytes() {
      size_t sum = sizeof(Buffer);
      for (size_t c = 0; c < kClasses; ++c) sum += most_blocks(c) * Classes::size(c);
      return sum;
    }

    using Over<Below>::Over;
    // Other threads that used it must have ended.
    ~On() {
      Buffer* b = mine();
      if (b <= Ended() || b->heap != this) return;
      End(b);
      mine() = nullptr;
    }

    void* allocate(size_t size) {
      if (size <= kLargest) [[likely]] {
        const size_t c = Classes::of(size);
        Buffer* b = mine();
        if (b > Ended() && b->heap == this && !b->kept[c].blocks.empty()) [[likely]]
          return b->kept[c].Pop();
        return AllocateSlow(c);
      }
      return this->next_.allocate(size);
    }
    void* allocate(size_t size, size_t align)
      requires AlignedHeap<Below>
    {
      return this->next_.allocate(size, align);
    }

    void deallocate(void* p) {
      Buffer* b = mine();
      const auto* s = this->next_.superblock_of_freed(p);
      if (b > Ended() && s != nullptr && s->size_class() < kClasses && b->heap == this) [[likely]] {
        Kept& kept = b->kept[s->size_class()];
        if (kept.from == s->owner()) {
          kept.Push(p);
          if (kept.room == 0) [[unlikely]]
            Shrink(kept, most_blocks(s->size_class()) / 2);
          return;
        }
      }
      this->next_.deallocate(p);
    }
    void deallocate(void* p, size_t) { deallocate(p); }
    size_t size_of(void* p) { return this->next_.size_of(p); }

    // Sends what the current thread keeps home.
    void flush() {
      Buffer* b = mine();
      if (b > Ended() && b->heap == this) FlushAll(*b);
    }

    template <class F>
    void visit_locks(F&& f) {
      at_end_.visit_locks(f);
      Over<Below>::visit_locks(f);
    }

   private:
    struct Kept {
      internal::BlockStack blocks;  // marked as free
      size_t room = 0;              // for how many more
      const void* from = nullptr;   // the heap whose they were when they came
      void Push(void* p) {
        blocks.Push(p);
        FreedMark::Set(p);
        --room;
      }
      void* Pop() {
        ++room;
        void* p = blocks.Pop();
        FreedMark::Clear(p);
        return p;
      }
    };
    struct Buffer {
      explicit Buffer(On* of) : heap(of) {
        for (size_t c = 0; c < kClasses; ++c) kept[c].room = most_blocks(c);
      }
      On* heap;
      Kept kept[kClasses];
    };

    // A thread that has no buffer: not yet, or not any more and while it gets one.
    static Buffer* Ended() { return reinterpret_cast<Buffer*>(1); }
    static Buffer*& mine() { return Thread::template pointer<Buffer>(); }

    [[gnu::noinline]] void* AllocateSlow(size_t c) {
      Buffer* b = mine();
      if (b == nullptr) b = Begin();
      if (b <= Ended() || b->heap != this) return this->next_.allocate(Classes::size(c));
      Kept& kept = b->kept[c];
      const typename Below::Bin* from;
      const size_t taken = this->next_.take(c, kept.blocks, most_blocks(c) / 2, &from);
      if (taken == 0) return nullptr;
      kept.room -= taken;
      kept.from = from;
      return kept.Pop();
    }

    [[gnu::noinline]] void Shrink(Kept& kept, size_t by) {
      this->next_.give(kept.blocks, by);
      kept.room += by;
    }
    void FlushAll(Buffer& b) {
      for (size_t c = 0; c < kClasses; ++c) {
        if (const size_t all = most_blocks(c) - b.kept[c].room; all > 0) Shrink(b.kept[c], all);
      }
    }

    // The calling thread's buffer, or null. What is called here may allocate.
    [[gnu::noinline]] Buffer* Begin() {
      mine() = Ended();
      void* memory = this->next_.allocate(sizeof(Buffer));
      if (memory == nullptr) {
        mine() = nullptr;  // perhaps later
        return nullptr;
      }
      auto* b = ::new (memory) Buffer(this);
      if (!at_end_.Call(End, b)) {
        this->next_.deallocate(b);
        return nullptr;
      }
      return mine() = b;
    }
    static void End(void* ending) {
      auto* b = static_cast<Buffer*>(ending);
      mine() = Ended();  // later destructors go without
      b->heap->FlushAll(*b);
      b->heap->next().deallocate(b);
    }

    typename Thread::AtEnd at_end_;
  };
};

}  // namespace strata::layers
