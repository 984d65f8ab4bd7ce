// Bump: hands out consecutive bytes of chunks of at least kChunk bytes from the heap below; a block
// that is given back stays until clear(), which gives all chunks back but one. A request that is
// too large for a chunk gets one of its own. The fastest allocate there is, and a leak unless
// something above reuses blocks (a free list) or lifetimes end together (a region).
#pragma once

#include "strata/layers/heap.h"

namespace strata::layers {

// kSkew = 8: each block lies 8 bytes behind a multiple of 16, for a layer that puts a header of 8
// bytes in front of what it hands out.
template <size_t kChunk = 64 << 10, size_t kSkew = 0>
struct Bump {
  static_assert(kSkew == 0 || kSkew == 8,
                "Bump: blocks begin at or 8 bytes behind a multiple of 16");

  template <Heap Below>
  class On : public Over<Below> {
    static_assert(Below::alignment >= kDefaultAlignment, "Bump needs a heap aligned to 16 bytes");
    static_assert(!internal::OneSize<Below>(),
                  "Bump asks for chunks of many sizes: put Fixed<bytes> or Bins between it and a "
                  "FreeList or Inbox");

   public:
    static constexpr size_t alignment = kSkew == 0 ? kDefaultAlignment : kSkew;
    static constexpr size_t skew = kSkew;
    static constexpr bool thread_safe = false;
    // A free does nothing.
    static constexpr bool blocks_stand_alone = true;

    using Over<Below>::Over;
    ~On() { GiveBack(nullptr); }

    void* allocate(size_t size) {
      if (size > kMaxRequest) return nullptr;
      const size_t bytes = RoundUpBlock(size, kDefaultAlignment);
      if (bytes <= left_) {
        void* p = at_;
        at_ += bytes;
        left_ -= bytes;
        return p;
      }
      return AllocateSlow(bytes);
    }
    void deallocate(void*, size_t) {}
    void clear() {
      Chunk* kept = Reusable();
      GiveBack(kept);
      chunks_ = kept;
      at_ = kept == nullptr ? nullptr : Bytes(kept);
      left_ = kept == nullptr ? 0 : kept->bytes;
      if (kept != nullptr) kept->next = nullptr;
      held_ = kept == nullptr ? 0 : Whole(kept->bytes);
    }
    void forget() {
      chunks_ = nullptr;
      at_ = nullptr;
      left_ = held_ = 0;
      Over<Below>::forget();
    }
    bool owns(const void* p) const {
      for (const Chunk* c = chunks_; c != nullptr; c = c->next) {
        const auto at = reinterpret_cast<uintptr_t>(p) - reinterpret_cast<uintptr_t>(c);
        if (at >= kHeader && at < Whole(c->bytes)) return true;
      }
      return false;
    }
    size_t held() const { return held_; }  // bytes taken from below

   private:
    struct Chunk {
      Chunk* next;
      size_t bytes;  // for blocks
    };
    static constexpr size_t kHeader = RoundUp(sizeof(Chunk), kDefaultAlignment) + kSkew;
    static constexpr size_t kRoom = (kChunk - kHeader) & ~(kDefaultAlignment - 1);
    static_assert(kChunk >= 4 * kHeader, "Bump: chunks of at least 64 bytes");

    static char* Bytes(Chunk* c) { return reinterpret_cast<char*>(c) + kHeader; }
    static constexpr size_t Whole(size_t bytes) { return bytes + kHeader; }

    [[gnu::noinline]] void* AllocateSlow(size_t bytes) {
      const bool apart = bytes > kRoom / 4;
      const size_t room = apart ? bytes : kRoom;
      void* raw = this->next_.allocate(Whole(room));
      if (raw == nullptr) return nullptr;
      auto* c = ::new (raw) Chunk{chunks_, room};
      held_ += Whole(room);
      if (apart && chunks_ != nullptr) {  // behind the one in use, which goes on
        c->next = chunks_->next;
        chunks_->next = c;
        return Bytes(c);
      }
      chunks_ = c;
      at_ = Bytes(c) + bytes;
      left_ = room - bytes;
      return Bytes(c);
    }

    Chunk* Reusable() const {
      for (Chunk* c = chunks_; c != nullptr; c = c->next) {
        if (c->bytes == kRoom) return c;
      }
      return nullptr;
    }
    void GiveBack(const Chunk* kept) {
      for (Chunk* c = chunks_; c != nullptr;) {
        Chunk* next = c->next;
        if (c != kept) this->next_.deallocate(c, Whole(c->bytes));
        c = next;
      }
    }

    Chunk* chunks_ = nullptr;
    char* at_ = nullptr;
    size_t left_ = 0;
    size_t held_ = 0;
  };
};

}  // namespace strata::layers
