// What a tree keeps of one key: the key and the slot that owns the value. Nodes point to records,
// so that a slot stays where it is when a split or a growing node moves keys about: the slot is
// what the guided heap writes to when it moves a value, and moving it under readers is not allowed.
//
// The key is whole even where a tree needs its end only (MassTree's suffixes, ART's leaves): a
// record never has to be written again when a key lands a level deeper.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include "index/read_write_lock.h"

namespace crest {

template <class Values>
class Record {
 public:
  typename Values::Slot slot;
  // Keeps those apart who write to the slot, in a tree whose nodes they only share (art.h).
  ReadWriteLock writing;

  // Null: no memory.
  static Record* Make(std::string_view key) {
    void* memory = std::malloc(sizeof(Record) + key.size());
    return memory == nullptr ? nullptr : new (memory) Record(key);
  }
  static void Destroy(Record* record) {
    record->~Record();
    std::free(record);
  }

  std::string_view key() const { return {reinterpret_cast<const char*>(this + 1), size_}; }

 private:
  explicit Record(std::string_view key) : size_(static_cast<uint8_t>(key.size())) {
    std::memcpy(reinterpret_cast<char*>(this + 1), key.data(), key.size());
  }
  ~Record() = default;

  const uint8_t size_;
};

// To be freed when no operation can look at it any more; its slot is empty.
template <class Values>
void RetireRecord(typename Values::Scope& scope, Record<Values>* record) {
  scope.Retire(record,
               [](void* memory) { Record<Values>::Destroy(static_cast<Record<Values>*>(memory)); });
}

// A record with its value that is not in the tree yet; goes with its maker if it never gets there.
template <class Values>
class PreparedRecord {
 public:
  explicit PreparedRecord(typename Values::Scope& scope) : scope_(scope) {}
  ~PreparedRecord() {
    if (record_ == nullptr) return;
    record_->slot.Clear(scope_);
    Record<Values>::Destroy(record_);
  }
  PreparedRecord(const PreparedRecord&) = delete;

  // Does nothing the second time. False: no memory.
  bool Make(std::string_view key, std::string_view value) {
    if (record_ != nullptr) return true;
    Record<Values>* record = Record<Values>::Make(key);
    if (record == nullptr) return false;
    if (!record->slot.Set(scope_, value)) {
      Record<Values>::Destroy(record);
      return false;
    }
    record_ = record;
    return true;
  }
  bool made() const { return record_ != nullptr; }
  Record<Values>* get() const { return record_; }
  Record<Values>* Take() { return std::exchange(record_, nullptr); }

 private:
  typename Values::Scope& scope_;
  Record<Values>* record_ = nullptr;
};

}  // namespace crest
