// FreeList: keeps blocks that come back on a stack threaded through them and hands the newest out
// again. It looks at no size: every request to one FreeList must be for the same number of bytes,
// which Fixed or Bins above it see to. BoundedFreeList keeps at most kMost blocks and sends the
// rest down.
#pragma once

#include "strata/layers/heap.h"

namespace strata::layers {

namespace internal {

struct LinkedBlock {
  LinkedBlock* next;
};

// Some blocks, at least one, each linked to the next; the last one's link may be anything.
struct BlockChain {
  LinkedBlock* first;
  LinkedBlock* last;
  size_t count;
};

// The stack itself; a block's first word is its link.
class BlockStack {
 public:
  bool empty() const { return first_ == nullptr; }
  void* newest() const { return first_; }
  void Push(void* p) { first_ = ::new (p) LinkedBlock{first_}; }
  void* Pop() {
    LinkedBlock* b = first_;
    first_ = b->next;
    return b;
  }
  void Forget() { first_ = nullptr; }

  // Many at once, which costs a load each: the newest ones while they are alike(block), at most n.
  // There must be n, and the first is taken whatever it is.
  template <class F>
  BlockChain PopChain(size_t n, F alike) {
    BlockChain chain{first_, first_, 1};
    while (chain.count < n && alike(chain.last->next)) {
      chain.last = chain.last->next;
      ++chain.count;
    }
    first_ = chain.last->next;
    return chain;
  }
  void Push(const BlockChain& chain) {
    chain.last->next = first_;
    first_ = chain.first;
  }

  // Calls f(void*) for each.
  template <class F>
  void Visit(F f) const {
    for (LinkedBlock* b = first_; b != nullptr; b = b->next) f(static_cast<void*>(b));
  }

 private:
  LinkedBlock* first_ = nullptr;
};

}  // namespace internal

struct FreeList {
  template <Heap Below>
  class On : public Over<Below> {
    static_assert(Below::alignment >= sizeof(void*),
                  "FreeList needs a heap aligned to 8 bytes: a free block holds a link");

   public:
    static constexpr bool thread_safe = false;
    static constexpr bool one_size = true;
    static constexpr bool blocks_stand_alone = internal::StandAlone<Below>();

    using Over<Below>::Over;
    ~On() { Drain(); }

    void* allocate(size_t size) {
      if (kept_.empty()) [[unlikely]]
        return this->next_.allocate(size);
      return kept_.Pop();
    }
    // The newest kept block, or null.
    void* allocate_kept(size_t) { return kept_.empty() ? nullptr : kept_.Pop(); }
    void deallocate(void* p, size_t size) {
      if constexpr (!SizedHeap<Below>) size_ = size;
      kept_.Push(p);
    }
    void forget() {
      kept_.Forget();
      Over<Below>::forget();
    }
    void clear()
      requires ClearableHeap<Below>
    {
      kept_.Forget();
      this->next_.clear();
    }
    // Sends all kept blocks down.
    void Drain() {
      while (!kept_.empty()) {
        if constexpr (SizedHeap<Below>) {
          this->next_.deallocate(kept_.Pop());
        } else {
          this->next_.deallocate(kept_.Pop(), size_);
        }
      }
    }

   private:
    internal::BlockStack kept_;
    struct None {};
    // Of the blocks here, where the heap below needs it; known once there is one.
    [[no_unique_address]] std::conditional_t<SizedHeap<Below>, None, size_t> size_{};
  };
};

template <size_t kMost>
struct BoundedFreeList {
  template <Heap Below>
  class On : public Over<typename FreeList::template On<Below>> {
    using Base = Over<typename FreeList::template On<Below>>;

   public:
    static constexpr bool blocks_stand_alone = internal::StandAlone<Below>();

    using Base::Base;

    void* allocate(size_t size) {
      void* p = allocate_kept(size);
      return p != nullptr ? p : this->next_.next().allocate(size);
    }
    void* allocate_kept(size_t size) {
      void* p = this->next_.allocate_kept(size);
      if (p != nullptr) [[likely]]
        --count_;
      return p;
    }
    void deallocate(void* p, size_t size) {
      if (count_ == kMost) return this->next_.next().deallocate(p, size);
      ++count_;
      this->next_.deallocate(p, size);
    }
    void forget() {
      count_ = 0;
      Base::forget();
    }
    void clear()
      requires ClearableHeap<Below>
    {
      count_ = 0;
      this->next_.clear();
    }
    size_t kept() const { return count_; }

   private:
    size_t count_ = 0;
  };
};

}  // namespace strata::layers
