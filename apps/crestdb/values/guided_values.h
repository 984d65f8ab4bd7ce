// The policy of values that Strata moves: each slot is a guide (strata/hot_ptr.h), hot values lie
// together and cold ones apart. A structure's parameter, as PlainValues is.
#pragma once

#include <cstring>
#include <string_view>

#include <strata/hot_ptr.h>

#include "values/reclaim.h"
#include "values/value_view.h"

namespace crest {

class GuidedValues {
 public:
  explicit GuidedValues(const strata::hot_domain::options& options) : domain_(options) {}

  strata::hot_domain& domain() { return domain_; }

  // One operation: what it reads neither moves nor goes until it ends.
  class Scope : public ReclaimScope {
   public:
    explicit Scope(GuidedValues& values) : values_(values), scope_(values.domain_) {}

   private:
    friend class GuidedValues;
    GuidedValues& values_;
    strata::hot_scope scope_;
  };

  class Slot {
   public:
    ValueView Get(Scope& scope) const {
      const char* p = value_.load(scope.scope_);
      return {p, Guided::size(p)};
    }
    const void* Peek() const { return value_.peek(); }

    bool Set(Scope& scope, std::string_view bytes) {
      strata::hot_ptr<char[]> fresh = Make(scope, bytes, value_.load(scope.scope_));
      if (!fresh) return false;
      value_.store(scope.scope_, std::move(fresh));
      return true;
    }
    Replaced Replace(Scope& scope, std::string_view bytes) {
      char* old = value_.load(scope.scope_);
      if (old == nullptr) return Replaced::kWasEmpty;
      strata::hot_ptr<char[]> fresh = Make(scope, bytes, old);
      if (!fresh) return Replaced::kNoMemory;
      while (!value_.compare_exchange(scope.scope_, old, fresh)) {
        old = value_.load(scope.scope_);
        if (old == nullptr) return Replaced::kWasEmpty;
      }
      return Replaced::kYes;
    }
    bool Clear(Scope& scope) {
      strata::hot_ptr<char[]> none;
      for (;;) {
        char* old = value_.load(scope.scope_);
        if (old == nullptr) return false;
        if (value_.compare_exchange(scope.scope_, old, none)) return true;
      }
    }

   private:
    using Guided = strata::hot_atomic_ptr<char[]>;

    // Where the value lies that it replaces: what is written often is hot.
    static strata::hot_ptr<char[]> Make(Scope& scope, std::string_view bytes, const char* old) {
      auto fresh = scope.values_.domain_.try_make_for_overwrite<char[]>(bytes.size(), old);
      if (fresh) std::memcpy(fresh.get(scope.scope_), bytes.data(), bytes.size());
      return fresh;
    }

    Guided value_;
  };

 private:
  strata::hot_domain domain_;
};

}  // namespace crest
