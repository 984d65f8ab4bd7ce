// A Store of one structure and one kind of values. Included by the file of each structure, so that
// each is compiled by itself.
#pragma once

#include <concepts>
#include <memory>
#include <utility>

#include "store.h"
#include "values/guided_values.h"
#include "values/plain_values.h"
#include "values/reclaim.h"

namespace crest {

template <template <class> class Index, class Values>
class StoreOf final : public Store {
 public:
  template <class... Args>
  explicit StoreOf(size_t expected_keys, Args&&... args)
      : values_(std::forward<Args>(args)...), index_(Make(expected_keys)) {}
  ~StoreOf() override {
    index_.reset();
    Reclaimer::Get().DrainAll();  // what waits may hold values of this domain
  }

  bool Get(std::string_view key, std::string& value) override {
    typename Values::Scope scope(values_);
    return index_->Get(scope, key, [&](ValueView v) { value.assign(v.data, v.size); });
  }
  bool Put(std::string_view key, std::string_view value) override {
    typename Values::Scope scope(values_);
    return index_->Put(scope, key, value);
  }
  bool Remove(std::string_view key) override {
    typename Values::Scope scope(values_);
    return index_->Remove(scope, key);
  }
  size_t Scan(std::string_view from, size_t limit, std::string& last) override {
    if constexpr (Index<Values>::ordered) {
      typename Values::Scope scope(values_);
      return index_->Scan(scope, from, limit,
                          [&](std::string_view, ValueView v) { last.assign(v.data, v.size); });
    } else {
      return 0;
    }
  }
  bool ordered() const override { return Index<Values>::ordered; }
  ValueView Locate(std::string_view key) override {
    typename Values::Scope scope(values_);
    ValueView seen;
    index_->Get(scope, key, [&](ValueView v) { seen = v; });
    return seen;
  }
  void ForEachPlace(const std::function<void(std::string_view, const void*)>& f) override {
    index_->ForEach([&](std::string_view key, const auto& slot) { f(key, slot.Peek()); });
  }
  strata::hot_domain* domain() override {
    if constexpr (requires { values_.domain(); }) return &values_.domain();
    return nullptr;
  }

 private:
  std::unique_ptr<Index<Values>> Make(size_t expected_keys) {
    if constexpr (std::constructible_from<Index<Values>, Values&, size_t>)
      return std::make_unique<Index<Values>>(values_, expected_keys);
    else
      return std::make_unique<Index<Values>>(values_);
  }

  Values values_;
  std::unique_ptr<Index<Values>> index_;
};

template <template <class> class Index>
std::unique_ptr<Store> MakeStore(const StoreOptions& o) {
  if (o.tidy) return std::make_unique<StoreOf<Index, GuidedValues>>(o.expected_keys, o.domain);
  return std::make_unique<StoreOf<Index, PlainValues>>(o.expected_keys);
}

}  // namespace crest
