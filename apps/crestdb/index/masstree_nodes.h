// The nodes of MassTree (masstree.h) and what is done to them. A layer is a B+tree over eight bytes
// of the key, a slice; border nodes are its leaves. Per key these hold the slice, how many of its
// bytes are the key's, and a link: to a record, or to the layer that tells apart the keys that go
// on behind this slice.
//
// The keys of a border stay in the places where they were put; their order is one word, the
// permutation (Mao, Kohler, Morris, EuroSys 2012, section 4.6.2). Storing it is what makes an
// insertion visible, so readers need not notice one, unless it uses a place a second time.
//
// As in btree_nodes.h: whoever changes nodes holds their locks and has marked their versions,
// readers look on, everything that they read is an atomic, and memory goes back through epochs.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string_view>

#include "index/key_words.h"
#include "index/record.h"
#include "index/version_word.h"

namespace crest {

// Which places are used, in the order of their keys; then the free ones. Four bits each, the number
// of used ones first.
class Permutation {
 public:
  static constexpr size_t kPlaces = 15;

  constexpr Permutation() {
    for (size_t i = 0; i < kPlaces; ++i) bits_ |= uint64_t{i} << Shift(i);
  }
  explicit constexpr Permutation(uint64_t bits) : bits_(bits) {}
  uint64_t bits() const { return bits_; }

  size_t size() const { return bits_ & 15; }
  size_t operator[](size_t index) const { return bits_ >> Shift(index) & 15; }

  // Makes the first free place the one at `index`; returns it.
  size_t Insert(size_t index) {
    const size_t place = (*this)[size()];
    const uint64_t below = Below(index), upto = Below(size() + 1);
    bits_ = (bits_ & ~(upto & ~below)) | ((bits_ & Below(size()) & ~below) << 4) |
            uint64_t{place} << Shift(index);
    ++bits_;
    return place;
  }
  // Makes the place at `index` the first free one.
  void Remove(size_t index) {
    const size_t place = (*this)[index];
    const uint64_t below = Below(index), upto = Below(size());
    bits_ = (bits_ & ~(upto & ~below)) | (((bits_ & upto) >> 4) & ~below & (upto >> 4)) |
            uint64_t{place} << Shift(size() - 1);
    --bits_;
  }
  void Truncate(size_t size) { bits_ = (bits_ & ~uint64_t{15}) | size; }

 private:
  static constexpr size_t Shift(size_t index) { return 4 * (index + 1); }
  // The count and the places before `index`; shifting by 64 is not defined.
  static constexpr uint64_t Below(size_t index) {
    return index >= kPlaces ? ~uint64_t{0} : (uint64_t{1} << Shift(index)) - 1;
  }
  uint64_t bits_ = 0;
};

template <class Values>
struct MasstreeNodes {
  using Entry = Record<Values>;

  struct Node {
    VersionWord version;
    const bool border;
  };

  // To a node or to a record, in one word that is replaced at once: a record that becomes a layer
  // is never half of each, and the paper's state between them (UNSTABLE) is not needed.
  class Link {
   public:
    constexpr Link() = default;
    explicit Link(Entry* record) : word_(reinterpret_cast<uintptr_t>(record)) {}
    explicit Link(Node* node) : word_(reinterpret_cast<uintptr_t>(node) | 1) {}
    Node* node() const { return (word_ & 1) != 0 ? reinterpret_cast<Node*>(word_ - 1) : nullptr; }
    Entry* record() const { return (word_ & 1) == 0 ? reinterpret_cast<Entry*>(word_) : nullptr; }

   private:
    uintptr_t word_ = 0;
  };
  using LinkCell = std::atomic<Link>;
  static_assert(LinkCell::is_always_lock_free);

  // The part of a key that a layer looks at. Keys of one slice that end within it differ in how
  // much of it they use; all that go on share one place, so at most ten keys have the same slice,
  // and a full border can be split between slices.
  struct Part {
    static constexpr uint8_t kGoesOn = 9;
    Part(std::string_view key, size_t offset)
        : slice(WordAt(key, offset)),
          length(static_cast<uint8_t>(std::min<size_t>(key.size() - offset, kGoesOn))) {}
    bool operator==(const Part&) const = default;
    uint64_t slice;
    uint8_t length;
  };

  struct Border : Node {
    Border() : Node{{}, true} {}

    struct Place {
      size_t index;  // in the permutation, of the first part that is not less
      bool exact;
    };
    Permutation Order() const { return Permutation(order.load(std::memory_order_acquire)); }
    uint64_t Slice(size_t place) const { return slices[place].load(std::memory_order_acquire); }
    Link At(size_t place) const { return links[place].load(std::memory_order_acquire); }

    Place Find(const Permutation& places, Part part) const {
      size_t low = 0, high = places.size();
      while (low < high) {
        const size_t middle = (low + high) / 2, place = places[middle];
        const uint64_t slice = Slice(place);
        const uint8_t length = lengths[place].load(std::memory_order_acquire);
        if (slice == part.slice && length == part.length) return {middle, true};
        if (slice < part.slice || (slice == part.slice && length < part.length)) {
          low = middle + 1;
        } else {
          high = middle;
        }
      }
      return {low, false};
    }

    // Whether the next part to be inserted takes a place that readers may still be looking at.
    bool Reuses() const {
      const Permutation places = Order();
      return (used >> places[places.size()] & 1) != 0;
    }
    void Insert(size_t index, Part part, Link link) {
      Permutation places = Order();
      const size_t place = places.Insert(index);
      used |= 1u << place;
      slices[place].store(part.slice, std::memory_order_release);
      lengths[place].store(part.length, std::memory_order_release);
      links[place].store(link, std::memory_order_release);
      order.store(places.bits(), std::memory_order_release);
    }
    void Remove(size_t index) {
      Permutation places = Order();
      places.Remove(index);
      order.store(places.bits(), std::memory_order_release);
    }

    std::atomic<uint64_t> order{Permutation().bits()};
    uint32_t used = 0;  // the writers' own: places that ever held a key
    std::array<std::atomic<uint8_t>, Permutation::kPlaces> lengths{};
    std::array<std::atomic<uint64_t>, Permutation::kPlaces> slices{};
    std::array<LinkCell, Permutation::kPlaces> links{};
  };

  struct Interior : Node {
    static constexpr size_t kCapacity = 15;
    Interior() : Node{{}, false} {}

    size_t Size() const { return size.load(std::memory_order_acquire); }
    uint64_t Slice(size_t index) const { return slices[index].load(std::memory_order_acquire); }
    Node* Child(size_t index) const {
      return children[index].load(std::memory_order_acquire).node();
    }
    size_t IndexOf(uint64_t slice) const {
      const size_t count = Size();
      size_t index = 0;
      while (index < count && Slice(index) <= slice) ++index;
      return index;
    }

    void Insert(uint64_t slice, Node* right) {
      const size_t count = Size(), index = IndexOf(slice);
      for (size_t i = count; i > index; --i) {
        slices[i].store(Slice(i - 1), std::memory_order_release);
        children[i + 1].store(Link(Child(i)), std::memory_order_release);
      }
      slices[index].store(slice, std::memory_order_release);
      children[index + 1].store(Link(right), std::memory_order_release);
      size.store(static_cast<uint32_t>(count + 1), std::memory_order_release);
    }
    // The range of the child goes to its neighbour: the left one, or the right one of the first.
    void Remove(size_t index) {
      const size_t count = Size();
      for (size_t i = index; i < count; ++i) {
        children[i].store(Link(Child(i + 1)), std::memory_order_release);
      }
      for (size_t i = index == 0 ? 0 : index - 1; i + 1 < count; ++i) {
        slices[i].store(Slice(i + 1), std::memory_order_release);
      }
      size.store(static_cast<uint32_t>(count - 1), std::memory_order_release);
    }

    std::atomic<uint32_t> size{0};
    std::array<std::atomic<uint64_t>, kCapacity> slices{};
    std::array<LinkCell, kCapacity + 1> children{};
  };

  static Border* AsBorder(Node* node) { return static_cast<Border*>(node); }
  static Interior* AsInterior(Node* node) { return static_cast<Interior*>(node); }
  static bool Full(Node* node) {
    return node->border ? AsBorder(node)->Order().size() == Permutation::kPlaces
                        : AsInterior(node)->Size() == Interior::kCapacity;
  }

  // Null: no memory.
  template <class T>
  static T* Make() {
    void* memory = std::malloc(sizeof(T));
    return memory == nullptr ? nullptr : new (memory) T;
  }
  static void Destroy(Node* node) { std::free(node); }  // nothing in one has a destructor to run

  // Splits a full node that hangs on `cell`. `parent`, which is not full, is the interior node that
  // the cell is in; null if the node is the root of its layer, which then gets one. With `at_end`,
  // a border keeps all it can. False: no memory, and nothing has changed.
  static bool Split(LinkCell& cell, Interior* parent, Node* node, bool at_end);

  // A layer that tells two records apart whose keys are the same before `offset`. Layers between,
  // where both have the same eight bytes and more, hold one link. Null: no memory.
  static Node* MakeLayer(Entry* one, Entry* other, size_t offset);

  // With nobody about: `visit` for each record in order, then `leave` for each node and its layer.
  template <class Visit, class Leave>
  static void Walk(Node* node, Visit&& visit, Leave&& leave, size_t layer = 0);

 private:
  struct Halves {
    uint64_t slice;
    Node* right;  // null: no memory
  };
  static Halves SplitBorder(Border* border, bool at_end);
  static Halves SplitInterior(Interior* interior);
};

}  // namespace crest

#include "index/masstree_nodes_inl.h"
