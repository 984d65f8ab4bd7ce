// The nodes of the adaptive radix tree (art.h): one for up to 4, 16, 48 and 256 children each
// (Leis, Kemper, Neumann, "The Adaptive Radix Tree", ICDE 2013, section III). A node has a lock, a
// prefix (path compression: the bytes that all keys below it go on with), the record of the key
// that ends here, and children by the next byte. A key that is a prefix of others, which the paper
// forbids, needs no terminator that way, and keys may hold any byte.
//
// The prefix is whole, as in the paper's pessimistic variant: up to 16 bytes in the node, a longer
// one on its own. Everything here is read and written under the node's lock.
#pragma once

#include <emmintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <type_traits>

#include "index/read_write_lock.h"
#include "index/record.h"

namespace crest {

// The bytes that a node skips.
class ArtPrefix {
 public:
  ArtPrefix() = default;
  ~ArtPrefix() { Drop(); }
  ArtPrefix(ArtPrefix&& other) noexcept : ArtPrefix() { Swap(other); }
  ArtPrefix& operator=(ArtPrefix&& other) noexcept {
    Swap(other);
    return *this;
  }

  std::string_view view() const { return {far() ? far_ : near_, size_}; }

  // False: no memory, and the prefix is as it was. `bytes` may not lie in it.
  [[nodiscard]] bool Assign(std::string_view bytes) {
    char* memory = nullptr;
    if (bytes.size() > kNear) {
      memory = static_cast<char*>(std::malloc(bytes.size()));
      if (memory == nullptr) return false;
    }
    Drop();
    size_ = static_cast<uint8_t>(bytes.size());
    if (memory != nullptr) far_ = memory;
    std::memcpy(memory != nullptr ? memory : near_, bytes.data(), bytes.size());
    return true;
  }

  // Takes the first bytes off.
  void Cut(size_t count) {
    const size_t left = size_ - count;
    if (far() && left <= kNear) {
      char* memory = far_;
      std::memcpy(near_, memory + count, left);
      std::free(memory);
    } else {
      char* bytes = far() ? far_ : near_;
      std::memmove(bytes, bytes + count, left);
    }
    size_ = static_cast<uint8_t>(left);
  }

 private:
  static constexpr size_t kNear = 16;
  bool far() const { return size_ > kNear; }
  void Drop() {
    if (far()) std::free(far_);
    size_ = 0;
  }
  void Swap(ArtPrefix& other) {
    std::swap(near_, other.near_);  // of all, the longest member
    std::swap(size_, other.size_);
  }

  union {
    char near_[kNear] = {};
    char* far_;
  };
  uint8_t size_ = 0;
};

enum class ArtKind : uint8_t { k4, k16, k48, k256 };

template <class Values>
struct ArtNodes {
  using Entry = Record<Values>;
  struct Node;

  // To a record, to a node, or to nothing.
  class Link {
   public:
    constexpr Link() = default;
    explicit Link(Entry* record) : word_(reinterpret_cast<uintptr_t>(record)) {}
    explicit Link(Node* node) : word_(reinterpret_cast<uintptr_t>(node) | 1) {}
    explicit operator bool() const { return word_ != 0; }
    Node* node() const { return (word_ & 1) != 0 ? reinterpret_cast<Node*>(word_ - 1) : nullptr; }
    Entry* record() const { return (word_ & 1) == 0 ? reinterpret_cast<Entry*>(word_) : nullptr; }

   private:
    uintptr_t word_ = 0;
  };

  struct Node {
    explicit Node(ArtKind k) : kind(k) {}
    ReadWriteLock lock;
    const ArtKind kind;
    uint16_t children = 0;
    ArtPrefix prefix;
    Entry* ends = nullptr;  // the record of the key that ends behind the prefix

    size_t Size() const { return children + (ends != nullptr ? 1u : 0u); }
  };

  // A child and its byte; null: there is none.
  struct Child {
    uint8_t byte;
    Link* link;
  };

  // 4 or 16 children, in the order of their bytes.
  template <ArtKind kKind, size_t kCount>
  struct Sorted : Node {
    static constexpr size_t kCapacity = kCount;
    Sorted() : Node(kKind) {}

    // The index of the first byte that is not less.
    size_t LowerBound(uint8_t byte) const {
      if constexpr (kCount == 16) {
        // Unsigned bytes: the minimum with `byte` is `byte` where they are not less.
        const __m128i mine =
            _mm_loadu_si128(reinterpret_cast<const __m128i*>(static_cast<const void*>(&bytes)));
        const __m128i wanted = _mm_set1_epi8(static_cast<char>(byte));
        const int not_less = _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(mine, wanted), wanted));
        const unsigned used = (1u << this->children) - 1;
        const unsigned hits = static_cast<unsigned>(not_less) & used;
        return hits != 0 ? static_cast<size_t>(std::countr_zero(hits)) : this->children;
      } else {
        size_t index = 0;
        while (index < this->children && bytes[index] < byte) ++index;
        return index;
      }
    }
    Child Next(size_t from) {
      if (from > 255) return {0, nullptr};
      const size_t index = LowerBound(static_cast<uint8_t>(from));
      if (index == this->children) return {0, nullptr};
      return {bytes[index], &links[index]};
    }
    Link* Find(uint8_t byte) {
      const size_t index = LowerBound(byte);
      return index < this->children && bytes[index] == byte ? &links[index] : nullptr;
    }
    void Insert(uint8_t byte, Link link) {
      const size_t index = LowerBound(byte);
      std::copy_backward(&bytes[index], &bytes[this->children], &bytes[this->children] + 1);
      std::copy_backward(&links[index], &links[this->children], &links[this->children] + 1);
      bytes[index] = byte;
      links[index] = link;
      ++this->children;
    }
    void Remove(uint8_t byte) {
      const size_t index = LowerBound(byte);
      std::copy(&bytes[index] + 1, &bytes[this->children], &bytes[index]);
      std::copy(&links[index] + 1, &links[this->children], &links[index]);
      --this->children;
    }

    std::array<uint8_t, kCount + 1> bytes{};  // one more, so that an end may be pointed at
    std::array<Link, kCount + 1> links{};
  };
  using Node4 = Sorted<ArtKind::k4, 4>;
  using Node16 = Sorted<ArtKind::k16, 16>;

  // Up to 48 children, and for each byte where its child is.
  struct Node48 : Node {
    static constexpr size_t kCapacity = 48;
    Node48() : Node(ArtKind::k48) {}

    Link* Find(uint8_t byte) { return index[byte] != 0 ? &links[index[byte] - 1u] : nullptr; }
    Child Next(size_t from) {
      for (; from < index.size(); ++from) {
        if (index[from] != 0) return {static_cast<uint8_t>(from), &links[index[from] - 1u]};
      }
      return {0, nullptr};
    }
    void Insert(uint8_t byte, Link link) {
      size_t at = this->children;  // free unless a child was removed
      if (links[at])
        at = static_cast<size_t>(
            std::ranges::find_if_not(links, [](Link one) { return static_cast<bool>(one); }) -
            links.begin());
      links[at] = link;
      index[byte] = static_cast<uint8_t>(at + 1);
      ++this->children;
    }
    void Remove(uint8_t byte) {
      links[index[byte] - 1u] = Link();
      index[byte] = 0;
      --this->children;
    }

    std::array<uint8_t, 256> index{};  // 0: none; else one more than the place
    std::array<Link, kCapacity> links{};
  };

  struct Node256 : Node {
    static constexpr size_t kCapacity = 256;
    Node256() : Node(ArtKind::k256) {}

    Link* Find(uint8_t byte) { return links[byte] ? &links[byte] : nullptr; }
    Child Next(size_t from) {
      for (; from < links.size(); ++from) {
        if (links[from]) return {static_cast<uint8_t>(from), &links[from]};
      }
      return {0, nullptr};
    }
    void Insert(uint8_t byte, Link link) {
      links[byte] = link;
      ++this->children;
    }
    void Remove(uint8_t byte) {
      links[byte] = Link();
      --this->children;
    }

    std::array<Link, 256> links{};
  };

  // Calls f with the node as what it is.
  template <class F>
  static auto With(Node* node, F&& f) {
    switch (node->kind) {
      case ArtKind::k4:
        return f(static_cast<Node4*>(node));
      case ArtKind::k16:
        return f(static_cast<Node16*>(node));
      case ArtKind::k48:
        return f(static_cast<Node48*>(node));
      case ArtKind::k256:
        break;
    }
    return f(static_cast<Node256*>(node));
  }

  static Link* Find(Node* node, uint8_t byte) {
    return With(node, [&](auto* one) { return one->Find(byte); });
  }
  // The first child whose byte is not less than `from`, which may be 256.
  static Child Next(Node* node, size_t from) {
    return With(node, [&](auto* one) { return one->Next(from); });
  }
  static void Insert(Node* node, uint8_t byte, Link link) {
    With(node, [&](auto* one) { one->Insert(byte, link); });
  }
  static void Remove(Node* node, uint8_t byte) {
    With(node, [&](auto* one) { one->Remove(byte); });
  }
  static bool Full(Node* node) {
    return With(node, [&](auto* one) { return one->children == one->kCapacity; });
  }

  // Null: no memory.
  template <class T>
  static T* Make() {
    void* memory = std::malloc(sizeof(T));
    return memory == nullptr ? nullptr : new (memory) T;
  }
  template <class T>
  static void Destroy(T* node) {
    if constexpr (std::is_same_v<T, Node>) {
      With(node, [](auto* one) { Destroy(one); });
    } else {
      node->~T();
      std::free(node);
    }
  }

  // Another node with what this one has, its prefix too, for more or for fewer children. Null: no
  // memory; else the old one is to be destroyed.
  static Node* Grown(Node* node) {
    switch (node->kind) {
      case ArtKind::k4:
        return Moved<Node16>(node);
      case ArtKind::k16:
        return Moved<Node48>(node);
      default:
        return Moved<Node256>(node);
    }
  }
  static Node* Shrunk(Node* node) {
    switch (node->kind) {
      case ArtKind::k256:
        return Moved<Node48>(node);
      case ArtKind::k48:
        return Moved<Node16>(node);
      default:
        return Moved<Node4>(node);
    }
  }
  // Whether a node with so few children should be a smaller one: some before that would be full, or
  // every other operation might replace it.
  static bool TooLarge(ArtKind kind, size_t children) {
    switch (kind) {
      case ArtKind::k4:
        return false;
      case ArtKind::k16:
        return children <= 3;
      case ArtKind::k48:
        return children <= 12;
      case ArtKind::k256:
        break;
    }
    return children <= 40;
  }

  // With nobody about: `visit` for each record in order, then `leave` for each node.
  template <class Visit, class Leave>
  static void Walk(Node* node, Visit&& visit, Leave&& leave) {
    if (node->ends != nullptr) visit(node->ends);
    for (Child child = Next(node, 0); child.link != nullptr; child = Next(node, child.byte + 1u)) {
      if (Node* below = child.link->node(); below != nullptr) {
        Walk(below, visit, leave);
      } else {
        visit(child.link->record());
      }
    }
    leave(node);
  }

 private:
  template <class To>
  static Node* Moved(Node* from) {
    To* to = Make<To>();
    if (to == nullptr) return nullptr;
    to->prefix = std::move(from->prefix);
    to->ends = from->ends;
    for (Child child = Next(from, 0); child.link != nullptr; child = Next(from, child.byte + 1u)) {
      to->Insert(child.byte, *child.link);
    }
    return to;
  }
};

}  // namespace crest
