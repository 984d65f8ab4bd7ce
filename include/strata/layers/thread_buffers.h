// ThreadBuffers: lists of free blocks for each thread, over a heap that hands them out in batches,
// such as Hoard: most calls then take no lock. A block is kept only if it belongs to the heap that
// the thread last took blocks of its class from, so what another processor's heap cut from a
// cache line that is in use there is not handed out here; all others go straight home. What a
// thread keeps is bounded for each class, and goes home when the thread ends.
//
// One heap of a type has buffers, the first that is used; others of the same type do without. The
// thread's state is one pointer. After the thread-local buffers of Hoard's current source (papers
// §6.5), which keep what comes, whoever it belongs to.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <atomic>

#include "strata/layers/free_list.h"
#include "strata/layers/freed_mark.h"
#include "strata/layers/heap.h"
#include "strata/layers/sync.h"

namespace strata::layers {

template <size_t kLargest = 1024, size_t kClassBytes = 8192>
struct ThreadBuffers {
  template <Heap Below>
  class On : public Through<Below> {
    using Classes = typename Below::Classes;
    static_assert(Below::thread_safe);
    static_assert(kLargest <= Classes::largest);
    static constexpr size_t kClasses = Classes::of(kLargest) + 1;
    static constexpr size_t kMostBlocks = 128;

   public:
    // Of one class, in one thread.
    static constexpr size_t Most(size_t c) {
      return std::clamp<size_t>(kClassBytes / Classes::size(c), 8, kMostBlocks);
    }
    // Of all classes, in bytes: what a thread may add to what is in use of the heap below.
    static constexpr size_t MostBytes() {
      size_t sum = sizeof(Buffer);
      for (size_t c = 0; c < kClasses; ++c) sum += Most(c) * Classes::size(c);
      return sum;
    }

    using Through<Below>::Through;
    // Other threads that used it must have ended.
    ~On() {
      if (t_buffer > Ended() && t_buffer->heap == this) {
        Buffer* mine = t_buffer;
        End(mine);
        t_buffer = nullptr;
      }
      if (has_key_) pthread_key_delete(key_);
    }

    void* allocate(size_t size) {
      if (size <= kLargest) [[likely]] {
        const size_t c = Classes::of(size);
        Buffer* b = t_buffer;
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
      Buffer* b = t_buffer;
      const auto* s = this->next_.SuperblockOfFreed(p);
      if (b > Ended() && s != nullptr && s->size_class() < kClasses && b->heap == this) [[likely]] {
        Kept& kept = b->kept[s->size_class()];
        if (kept.from == s->owner()) {
          kept.Push(p);
          if (kept.count > Most(s->size_class())) [[unlikely]]
            Shrink(kept, kept.count / 2);
          return;
        }
      }
      this->next_.deallocate(p);
    }
    void deallocate(void* p, size_t) { deallocate(p); }

    // Sends what the current thread keeps home.
    void Flush() {
      if (t_buffer > Ended() && t_buffer->heap == this) FlushAll(*t_buffer);
    }

    template <class F>
    void visit_locks(F&& f) {
      f(key_lock_);
      Through<Below>::visit_locks(f);
    }

   private:
    struct Kept {
      internal::BlockStack blocks;
      size_t count = 0;
      const void* from = nullptr;  // the heap whose they were when they came
      void Push(void* p) {
        blocks.Push(p);
        FreedMark::Set(p);
        ++count;
      }
      void* Pop() {
        --count;
        void* p = blocks.Pop();
        FreedMark::Clear(p);
        return p;
      }
    };
    struct Buffer {
      On* heap;
      Kept kept[kClasses];
    };

    // A thread that has no buffer: not yet, or not any more and while it gets one.
    static Buffer* Ended() { return reinterpret_cast<Buffer*>(1); }

    [[gnu::noinline]] void* AllocateSlow(size_t c) {
      Buffer* b = t_buffer;
      if (b == nullptr) b = Begin();
      if (b <= Ended() || b->heap != this) return this->next_.allocate(Classes::size(c));
      Kept& kept = b->kept[c];
      void* batch[kMostBlocks / 2];
      typename Below::Bin* from;
      const size_t n = this->next_.take(c, batch, Most(c) / 2, &from);
      if (n == 0) return nullptr;
      kept.from = from;
      for (size_t i = n; i > 1; --i) kept.Push(batch[i - 1]);  // the first on top
      return batch[0];
    }

    void Shrink(Kept& kept, size_t to) {
      void* batch[kMostBlocks / 2 + 1];
      size_t n = 0;
      while (kept.count > to) {
        batch[n++] = kept.Pop();
        if (n == std::size(batch) || kept.count == to) {
          this->next_.give(batch, n);
          n = 0;
        }
      }
    }
    void FlushAll(Buffer& b) {
      for (Kept& kept : b.kept) Shrink(kept, 0);
    }

    // The calling thread's buffer, or null. What is called here may allocate.
    Buffer* Begin() {
      t_buffer = Ended();
      if (!KeyIsReady()) return nullptr;
      auto* b = static_cast<Buffer*>(this->next_.allocate(sizeof(Buffer)));
      if (b == nullptr) {
        t_buffer = nullptr;  // perhaps later
        return nullptr;
      }
      ::new (b) Buffer{this, {}};
      if (pthread_setspecific(key_, b) != 0) {
        this->next_.deallocate(b);
        return nullptr;
      }
      return t_buffer = b;
    }
    bool KeyIsReady() {
      Holding hold(key_lock_);
      if (!has_key_) has_key_ = pthread_key_create(&key_, End) == 0;
      return has_key_;
    }
    static void End(void* ending) {
      auto* b = static_cast<Buffer*>(ending);
      t_buffer = Ended();  // later destructors go without
      b->heap->FlushAll(*b);
      b->heap->next().deallocate(b);
    }

    static inline constinit thread_local Buffer* t_buffer = nullptr;

    FutexLock key_lock_;
    bool has_key_ = false;
    pthread_key_t key_ = 0;
  };
};

}  // namespace strata::layers
