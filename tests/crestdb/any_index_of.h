// An AnyIndex of one structure and one kind of values, for the files that compile them.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <string_view>

#include "any_index.h"
#include "restless_values.h"

namespace crest {

template <template <class> class Index, class Values>
class AnyIndexOf final : public AnyIndex {
 public:
  static std::unique_ptr<AnyIndex> Make() { return std::make_unique<AnyIndexOf>(); }

  bool ordered() const override { return Index<Values>::ordered; }
  void ForEach(const SeePlace& f) override {
    test_.index->ForEach([&](std::string_view key, auto& slot) { f(key, slot.Peek()); });
  }
  std::unique_ptr<Mover> Move() override { return std::make_unique<MoverOf>(test_); }

 protected:
  void Begin(std::byte* scope) override { new (scope) Scope(test_.values); }
  void End(std::byte* scope) override { Of(scope).~Scope(); }
  bool Get(std::byte* scope, std::string_view key, const SeeValue& f) override {
    return test_.index->Get(Of(scope), key, f);
  }
  bool Put(std::byte* scope, std::string_view key, std::string_view value) override {
    return test_.index->Put(Of(scope), key, value);
  }
  bool Remove(std::byte* scope, std::string_view key) override {
    return test_.index->Remove(Of(scope), key);
  }
  size_t Scan(std::byte* scope, std::string_view from, size_t limit, const SeePair& f) override {
    if constexpr (Index<Values>::ordered)
      return test_.index->Scan(Of(scope), from, limit, f);
    else
      return 0;
  }

 private:
  using Scope = typename Values::Scope;
  using Test = TestIndex<Index<Values>, Values>;
  static_assert(sizeof(Scope) <= kRoom && alignof(Scope) <= alignof(std::max_align_t));

  struct MoverOf final : Mover {
    explicit MoverOf(Test& test) : mover(test) {}
    const typename Test::Mover mover;
  };
  static Scope& Of(std::byte* scope) { return *std::launder(reinterpret_cast<Scope*>(scope)); }

  Test test_;
};

}  // namespace crest
