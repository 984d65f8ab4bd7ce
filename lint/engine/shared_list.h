// A list that its copies share until one of them changes it: what ways that part know alike.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

namespace lint {

// T is plain data; `item.each_key(visit)` names the pointers that it speaks of.
template <typename T>
class SharedList {
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= alignof(std::uint64_t));

 public:
  SharedList() = default;
  SharedList(const SharedList& other) : block_(other.block_) {
    if (block_ != nullptr) ++block_->uses;
  }
  SharedList(SharedList&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  SharedList& operator=(SharedList other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~SharedList() { release(block_); }

  std::uint32_t size() const { return block_ == nullptr ? 0 : block_->size; }
  const T* begin() const { return block_ == nullptr ? nullptr : block_->items(); }
  const T* end() const { return begin() + size(); }
  const T& operator[](std::uint32_t i) const { return block_->items()[i]; }
  bool is(const SharedList& other) const { return block_ == other.block_; }

  // Whether an item may speak of the pointer: most do not, and need not be looked through.
  bool may_mention(const void* key) const {
    if (block_ == nullptr) return false;
    const std::size_t at = place_of(key);
    return ((block_->mentioned[at / 64] >> (at % 64)) & 1) != 0;
  }
  void push_back(const T& item) {
    const T copy = item;
    Block& block = own(1);
    block.items()[block.size++] = copy;
    block.mention(copy);
  }
  void replace(std::uint32_t i, const T& item) {
    const T copy = item;
    own(0).items()[i] = copy;
  }
  void erase(std::uint32_t i) {
    Block& block = own(0);
    std::copy(block.items() + i + 1, block.items() + block.size, block.items() + i);
    --block.size;
    ++block.gone;
  }
  // Whether any were dropped.
  template <typename Drop>
  bool drop_if(Drop drop) {
    const auto first = std::find_if(begin(), end(), drop) - begin();
    if (first == size()) return false;
    Block& block = own(0);
    T* const end = block.items() + block.size;
    T* const kept = std::remove_if(block.items() + first, end, drop);
    block.gone += static_cast<std::uint32_t>(end - kept);
    block.size -= static_cast<std::uint32_t>(end - kept);
    return true;
  }

 private:
  static constexpr std::uint32_t kMostGone = 24;  // then what is mentioned is noted anew
  struct Block {
    std::uint32_t uses = 1, size = 0, capacity = 0, gone = 0;
    std::array<std::uint64_t, 8> mentioned{};  // bits, by a hash
    T* items() { return reinterpret_cast<T*>(this + 1); }
    void mention(const T& item) {
      item.each_key([this](const void* key) {
        const std::size_t at = place_of(key);
        mentioned[at / 64] |= std::uint64_t{1} << (at % 64);
      });
    }
  };
  static std::size_t place_of(const void* key) {
    return (reinterpret_cast<std::uintptr_t>(key) >> 3) * 0x9E3779B97F4A7C15u >> 55;
  }
  static void release(Block* block) {
    if (block != nullptr && --block->uses == 0) ::operator delete(block);
  }
  // A block of its own with room for `more` items.
  Block& own(std::uint32_t more) {
    const std::uint32_t least = size() + more;
    if (block_ == nullptr || block_->uses != 1 || block_->capacity < least) {
      const bool grows = block_ != nullptr && block_->uses == 1;
      const std::uint32_t capacity = least + (grows ? least / 2 : 0) + 3;
      auto* block = new (::operator new(sizeof(Block) + capacity * sizeof(T))) Block;
      if (block_ != nullptr) {
        block->size = block_->size;
        block->gone = block_->gone;
        block->mentioned = block_->mentioned;
        std::memcpy(block->items(), block_->items(), block_->size * sizeof(T));
        release(block_);
      }
      block->capacity = capacity;
      block_ = block;
    }
    if (block_->gone > kMostGone) {
      block_->mentioned = {};
      block_->gone = 0;
      std::for_each(begin(), end(), [this](const T& item) { block_->mention(item); });
    }
    return *block_;
  }

  Block* block_ = nullptr;
};

}  // namespace lint
