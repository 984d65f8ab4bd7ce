// A key-value store over one of ten index structures, with values that stay or values that move.
// What drivers and the server use; the structures and the two kinds of values are chosen by name.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <strata/hot_ptr.h>

#include "values/value_view.h"

namespace crest {

inline constexpr size_t kLongestKey = 255;
inline constexpr size_t kLargestValue = size_t{1} << 20;

struct StoreOptions {
  size_t expected_keys = 1 << 16;
  bool tidy = false;  // values move
  strata::hot_domain::options domain;
};

// Thread-safe. Keys have 1 to kLongestKey bytes of any kind.
class Store {
 public:
  virtual ~Store() = default;

  // Into `value`, whose room is used again. False: no such key.
  virtual bool Get(std::string_view key, std::string& value) = 0;
  // False: no memory.
  virtual bool Put(std::string_view key, std::string_view value) = 0;
  virtual bool Remove(std::string_view key) = 0;
  // Up to `limit` pairs from `from` on; how many. 0 where keys are in no order.
  virtual size_t Scan(std::string_view from, size_t limit, std::string& last_value) = 0;
  virtual bool ordered() const = 0;
  // Where the value lies now: for measuring.
  virtual ValueView Locate(std::string_view key) = 0;
  // Calls f for each key, with where its value lies, without using it. With no operation running.
  virtual void ForEachPlace(const std::function<void(std::string_view, const void*)>& f) = 0;
  // Null where values stay.
  virtual strata::hot_domain* domain() = 0;
};

struct StructureName {
  std::string_view name;
  std::string_view synchronization;
  std::unique_ptr<Store> (*make)(const StoreOptions&);
};

// The ten, in the order of HADES' table 1.
std::span<const StructureName> Structures();
// Null: no such name.
const StructureName* FindStructure(std::string_view name);

}  // namespace crest
