// Obstack: a stack of objects (GNU's obstacks). Objects are laid one after the other in chunks of
// the heap below and go back newest first: release(p) frees p and all that came after it. The
// newest may be made step by step, growing where it lies; when its chunk is full it moves to the
// next. For compilers and readers, which do not know how long a name or a list will be.
#pragma once

#include <cstring>

#include "strata/layers/detail/misuse.h"
#include "strata/layers/heap.h"

namespace strata::layers {

template <size_t kChunk = 4096>
struct Obstack {
  template <Heap Below>
  class On : public Over<Below> {
    static_assert(Below::alignment >= kDefaultAlignment,
                  "Obstack needs a heap aligned to 16 bytes");
    static_assert(
        !internal::OneSize<Below>(),
        "Obstack asks for chunks of many sizes: put Fixed<bytes> or Bins between it and a "
        "FreeList or Inbox");
    struct Chunk {
      Chunk* older;
      char* end;
    };
    static constexpr size_t kHeader = RoundUp(sizeof(Chunk), kDefaultAlignment);
    static_assert(kChunk >= 4 * kHeader && kChunk % kDefaultAlignment == 0,
                  "Obstack: chunks of at least 64 bytes, a multiple of 16");

   public:
    static constexpr size_t alignment = kDefaultAlignment;
    static constexpr bool thread_safe = false;

    using Over<Below>::Over;
    ~On() { GiveBackDownTo(nullptr); }

    // A whole object.
    void* allocate(size_t size) {
      if (growing_) DieOfMisuse("", "obstack: an object was begun, and none may come in between");
      if (size > kMaxRequest || !MakeRoom(RoundUpBlock(size, alignment))) return nullptr;
      void* p = object_;
      at_ = object_ += RoundUpBlock(size, alignment);
      return p;
    }
    // Takes the newest object back; another one stays until an older one is released.
    void deallocate(void* p, size_t size) {
      if (!growing_ && static_cast<char*>(p) + RoundUpBlock(size, alignment) == object_)
        at_ = object_ = static_cast<char*>(p);
    }

    // The object that grows. Each call may move it; false: no memory, and it is as it was.
    bool grow(const void* bytes, size_t size) {
      if (!blank(size)) return false;
      memcpy(at_ - size, bytes, size);
      return true;
    }
    bool grow(char c) { return grow(&c, 1); }
    // Bytes that the caller will write.
    bool blank(size_t size) {
      if (size > kMaxRequest || !MakeRoom(size)) return false;
      growing_ = true;
      at_ += size;
      return true;
    }
    void* base() { return object_; }
    size_t object_size() const { return static_cast<size_t>(at_ - object_); }
    // The object is whole; it will not move any more. Null when there is no room at all.
    void* finish() {
      const size_t size = object_size();
      growing_ = false;
      at_ = object_;
      return allocate(size);
    }

    // Frees the object at p and all that were made after it.
    void release(void* p) {
      const auto at = reinterpret_cast<uintptr_t>(p);
      Chunk* c = newest_;
      while (c != nullptr && (at < reinterpret_cast<uintptr_t>(c) + kHeader ||
                              at > reinterpret_cast<uintptr_t>(c->end))) {
        c = c->older;
      }
      if (c == nullptr) DieOfMisuse("", "obstack: release of a pointer that is not in it");
      GiveBackDownTo(c);
      at_ = object_ = static_cast<char*>(p);
      growing_ = false;
    }
    // How far the newest object can grow where it lies.
    size_t room() const { return newest_ == nullptr ? 0 : static_cast<size_t>(newest_->end - at_); }
    // Where release() comes back to, with all that is there now kept. Null: the beginning.
    void* mark() const { return object_; }
    void release_to(void* mark) {
      if (mark == nullptr) return clear();
      release(mark);
    }
    void clear() {
      GiveBackDownTo(nullptr);
      Begin();
    }
    void forget() {
      newest_ = nullptr;
      Begin();
      Over<Below>::forget();
    }
    bool owns(const void* p) const {
      const auto at = reinterpret_cast<uintptr_t>(p);
      for (const Chunk* c = newest_; c != nullptr; c = c->older) {
        if (at >= reinterpret_cast<uintptr_t>(c) + kHeader &&
            at < reinterpret_cast<uintptr_t>(c->end))
          return true;
      }
      return false;
    }

   private:
    void Begin() {
      object_ = at_ = nullptr;
      growing_ = false;
    }
    // `more` bytes behind at_, where the object begun so far is moved if it must.
    bool MakeRoom(size_t more) {
      if (newest_ != nullptr && more <= room()) [[likely]]
        return true;
      return NewChunk(more);
    }
    [[gnu::noinline]] bool NewChunk(size_t more) {
      const size_t begun = object_size();
      // Room to grow on, so that a long object is copied a few times only.
      const size_t least = kHeader + RoundUp(begun + more, alignment) + begun / 8;
      const size_t whole = least <= kChunk ? kChunk : RoundUp(least, alignment);
      auto* c = static_cast<Chunk*>(this->next_.allocate(whole));
      if (c == nullptr) return false;
      ::new (c) Chunk{newest_, reinterpret_cast<char*>(c) + whole};
      char* first = reinterpret_cast<char*>(c) + kHeader;
      if (begun != 0) memcpy(first, object_, begun);
      newest_ = c;
      object_ = first;
      at_ = first + begun;
      return true;
    }
    void GiveBackDownTo(Chunk* kept) {
      while (newest_ != kept) {
        Chunk* older = newest_->older;
        this->next_.deallocate(
            newest_, static_cast<size_t>(newest_->end - reinterpret_cast<char*>(newest_)));
        newest_ = older;
      }
    }

    Chunk* newest_ = nullptr;
    char* object_ = nullptr;  // where the object that grows begins, or the next one will
    char* at_ = nullptr;      // behind what it has so far
    bool growing_ = false;
  };
};

}  // namespace strata::layers
