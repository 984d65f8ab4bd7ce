// FreeList: keeps blocks that come back on a stack threaded through them and hands the newest out
// again. It looks at no size: every request to one FreeList must be for the same number of bytes,
// which Fixed or Bins above it see to. BoundedFreeList keeps at most kMost blocks and sends the
// rest down.
#pragma once

#include "strata/layers/detail/by_call.h"
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
  void Push(void* p) { PushOn(first_, p); }
  void PushOn(void* newest, void* p) {
    first_ = ::new (p) LinkedBlock{static_cast<LinkedBlock*>(newest)};
  }
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
  class Alone {
   public:
    template <class Next>
    void* allocate(Next& next, size_t size) {
      if (empty()) [[unlikely]]
        return refill(next, size);
      return pop();
    }
    // Always inlined, or gcc computes the address of a bin before it looks into it.
    [[gnu::always_inline]] bool empty() const { return kept_.empty(); }
    [[gnu::always_inline]] void* pop() { return kept_.Pop(); }
    [[gnu::always_inline]] void* newest() const { return kept_.newest(); }
    [[gnu::always_inline]] void push_on(void* newest, void* p) { kept_.PushOn(newest, p); }
    template <class Next>
    static void* refill(Next& next, size_t size) {
      return next.allocate(size);
    }
    // The newest kept block, or null.
    void* allocate_kept(size_t) { return kept_.empty() ? nullptr : kept_.Pop(); }
    template <class Next>
    void deallocate(Next&, void* p, size_t) {
      kept_.Push(p);
    }
    template <class Next>
    void drain(Next& next, size_t size) {
      while (!kept_.empty()) internal::GiveDown(next, kept_.Pop(), size);
    }
    void forget() { kept_.Forget(); }

   private:
    internal::BlockStack kept_;
  };

  template <Heap Below>
  class On : public internal::OnAlone<Alone, Below> {
    static_assert(Below::alignment >= sizeof(void*),
                  "FreeList needs a heap aligned to 8 bytes: a free block holds a link");

   public:
    using internal::OnAlone<Alone, Below>::OnAlone;
  };
};

template <size_t kMost>
struct BoundedFreeList {
  class Alone {
   public:
    template <class Next>
    void* allocate(Next& next, size_t size) {
      void* p = allocate_kept(size);
      return p != nullptr ? p : next.allocate(size);
    }
    void* allocate_kept(size_t) {
      if (kept_.empty()) return nullptr;
      --count_;
      return kept_.Pop();
    }
    template <class Next>
    void deallocate(Next& next, void* p, size_t size) {
      if (count_ == kMost) return internal::GiveDown(next, p, size);
      ++count_;
      kept_.Push(p);
    }
    template <class Next>
    void drain(Next& next, size_t size) {
      count_ = 0;
      while (!kept_.empty()) internal::GiveDown(next, kept_.Pop(), size);
    }
    void forget() {
      count_ = 0;
      kept_.Forget();
    }
    size_t kept() const { return count_; }

   private:
    internal::BlockStack kept_;
    size_t count_ = 0;
  };

  template <Heap Below>
  class On : public internal::OnAlone<Alone, Below> {
    static_assert(Below::alignment >= sizeof(void*),
                  "FreeList needs a heap aligned to 8 bytes: a free block holds a link");

   public:
    using internal::OnAlone<Alone, Below>::OnAlone;
    size_t kept() const { return this->alone().kept(); }
  };
};

}  // namespace strata::layers
