// From the address of a live block to something about it, for one thread at a time: open addressing
// in memory of its own, so that it works inside a malloc replacement. The Trace and Profile layers
// use it.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace strata::trace {

template <class Value>
class AddressMap {
  static_assert(std::is_trivially_copyable_v<Value>);

 public:
  AddressMap() = default;
  AddressMap(const AddressMap&) = delete;
  AddressMap& operator=(const AddressMap&) = delete;
  ~AddressMap() { Unmap(entries_, capacity_); }

  // False: no memory; nothing is kept then.
  bool Put(const void* p, const Value& value) {
    if (count_ * 2 >= capacity_ && !Double()) return false;
    Entry& entry = entries_[Place(entries_, capacity_, p)];
    count_ += entry.p == nullptr;
    entry = {p, value};
    return true;
  }
  // Forgets p. False: it is not known.
  bool Take(const void* p, Value* value) {
    if (capacity_ == 0) return false;
    const size_t at = Place(entries_, capacity_, p);
    if (entries_[at].p == nullptr) return false;
    *value = entries_[at].value;
    --count_;
    Close(at);
    return true;
  }
  template <class Each>
  void ForEach(Each&& each) const {
    for (size_t i = 0; i < capacity_; ++i)
      if (entries_[i].p != nullptr) each(entries_[i].p, entries_[i].value);
  }
  void Clear() {
    Unmap(entries_, capacity_);
    entries_ = nullptr;
    capacity_ = count_ = 0;
  }
  size_t size() const { return count_; }

 private:
  struct Entry {
    const void* p;  // null: free
    Value value;
  };

  static size_t Home(size_t capacity, const void* p) {
    return ((reinterpret_cast<uintptr_t>(p) >> 3) * 0x9e3779b97f4a7c15u >> 20) & (capacity - 1);
  }
  static size_t Place(const Entry* entries, size_t capacity, const void* p) {
    size_t i = Home(capacity, p);
    while (entries[i].p != nullptr && entries[i].p != p) i = (i + 1) & (capacity - 1);
    return i;
  }
  // Moves up those behind the hole that a search would no longer reach past it.
  void Close(size_t hole) {
    const size_t mask = capacity_ - 1;
    for (size_t i = (hole + 1) & mask; entries_[i].p != nullptr; i = (i + 1) & mask) {
      const size_t home = Home(capacity_, entries_[i].p);
      if (((i - home) & mask) < ((i - hole) & mask)) continue;
      entries_[hole] = entries_[i];
      hole = i;
    }
    entries_[hole].p = nullptr;
  }
  bool Double() {
    const size_t capacity = capacity_ == 0 ? 1024 : capacity_ * 2;
    void* raw = mmap(nullptr, capacity * sizeof(Entry), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) return false;
    auto* fresh = static_cast<Entry*>(raw);  // zero bytes are free entries
    for (size_t i = 0; i < capacity_; ++i)
      if (entries_[i].p != nullptr) fresh[Place(fresh, capacity, entries_[i].p)] = entries_[i];
    Unmap(entries_, capacity_);
    entries_ = fresh;
    capacity_ = capacity;
    return true;
  }
  static void Unmap(Entry* entries, size_t capacity) {
    if (entries != nullptr) munmap(entries, capacity * sizeof(Entry));
  }

  Entry* entries_ = nullptr;
  size_t capacity_ = 0;  // a power of two, or 0
  size_t count_ = 0;
};

}  // namespace strata::trace
