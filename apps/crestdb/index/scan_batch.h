// What a scan takes from one node while it knows that the node is whole, to hand it on afterwards:
// callbacks run with no lock held and are never called twice for a key. The operation's scope keeps
// records and values alive.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "index/record.h"

namespace crest {

template <class Values, size_t kCapacity>
class ScanBatch {
 public:
  void Clear() { size_ = 0; }
  bool full() const { return size_ == kCapacity; }
  size_t size() const { return size_; }
  Record<Values>* last() const { return records_[size_ - 1]; }
  void Add(Record<Values>* record) { records_[size_++] = record; }

  // Calls f(key, value) for up to `limit` of them, save those whose value went meanwhile; says for
  // how many.
  template <class F>
  size_t Emit(typename Values::Scope& scope, size_t limit, F&& f) const {
    size_t emitted = 0;
    for (size_t i = 0; i < size_ && emitted < limit; ++i) {
      const auto value = records_[i]->slot.Get(scope);
      if (value.data == nullptr) continue;
      f(records_[i]->key(), value);
      ++emitted;
    }
    return emitted;
  }

 private:
  std::array<Record<Values>*, kCapacity> records_;
  size_t size_ = 0;
};

}  // namespace crest
