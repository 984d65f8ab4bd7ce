// One of CrestDB's structures, with one kind of values, behind virtual functions: the templates of
// twenty such pairs are compiled once (any_tables.cpp, any_trees.cpp) for all tests of every pair.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <string_view>

#include "values/value_view.h"

namespace crest {

using SeeValue = std::function<void(ValueView)>;
using SeePair = std::function<void(std::string_view key, ValueView)>;
using SeePlace = std::function<void(std::string_view key, const void* value)>;

class AnyIndex {
 public:
  virtual ~AnyIndex() = default;

  static constexpr size_t kRoom = 128;  // for a scope of either kind of values

  // One operation or several; what it reads neither moves nor goes until it ends.
  class Scope {
   public:
    explicit Scope(AnyIndex& index) : index_(index) { index_.Begin(room_); }
    ~Scope() { index_.End(room_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    bool Get(std::string_view key, const SeeValue& f) { return index_.Get(room_, key, f); }
    bool Put(std::string_view key, std::string_view value) { return index_.Put(room_, key, value); }
    bool Remove(std::string_view key) { return index_.Remove(room_, key); }
    size_t Scan(std::string_view from, size_t limit, const SeePair& f) {
      return index_.Scan(room_, from, limit, f);
    }

   private:
    AnyIndex& index_;
    alignas(std::max_align_t) std::byte room_[kRoom];
  };

  virtual bool ordered() const = 0;
  // With no operation running.
  virtual void ForEach(const SeePlace& f) = 0;
  // While it is there, values that move do; it ends when one has.
  class Mover {
   public:
    virtual ~Mover() = default;
  };
  virtual std::unique_ptr<Mover> Move() = 0;

 protected:
  virtual void Begin(std::byte* scope) = 0;
  virtual void End(std::byte* scope) = 0;
  virtual bool Get(std::byte* scope, std::string_view key, const SeeValue& f) = 0;
  virtual bool Put(std::byte* scope, std::string_view key, std::string_view value) = 0;
  virtual bool Remove(std::byte* scope, std::string_view key) = 0;
  virtual size_t Scan(std::byte* scope, std::string_view from, size_t limit, const SeePair& f) = 0;
};

struct IndexKind {
  const char* name;
  std::unique_ptr<AnyIndex> (*make)();
};
inline void PrintTo(const IndexKind& kind, std::ostream* to) { *to << kind.name; }
inline constexpr auto kNameOfKind = [](const auto& test) { return std::string(test.param.name); };

// Each with values that stay and with values that move.
std::span<const IndexKind> Tables();  // and skip lists
std::span<const IndexKind> Trees();
std::span<const IndexKind> PlainTrees();  // whose values stay

}  // namespace crest
