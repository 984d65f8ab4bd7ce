// The policy of values that stay where malloc put them: what a structure is without tidying. A
// structure's parameter, as GuidedValues is.
#pragma once

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "values/reclaim.h"
#include "values/value_view.h"

namespace crest {

class PlainValues {
 public:
  // One operation: what it reads stays until it ends.
  class Scope : public ReclaimScope {
   public:
    explicit Scope(PlainValues&) {}
  };

  // Holds one value, in a node of an index.
  class Slot {
   public:
    Slot() = default;
    ~Slot() { std::free(value_.load(std::memory_order_relaxed)); }
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;

    ValueView Get(Scope&) const { return ViewOf(value_.load(std::memory_order_acquire)); }
    // For measuring only.
    const void* Peek() const { return ViewOf(value_.load(std::memory_order_acquire)).data; }

    // Readers see the old value or the new one. False: no memory.
    bool Set(Scope& scope, std::string_view bytes) {
      Value* fresh = Make(bytes);
      if (fresh == nullptr) return false;
      RetireValue(scope, value_.exchange(fresh, std::memory_order_acq_rel));
      return true;
    }
    // Only if there is a value.
    Replaced Replace(Scope& scope, std::string_view bytes) {
      Value* old = value_.load(std::memory_order_acquire);
      if (old == nullptr) return Replaced::kWasEmpty;
      Value* fresh = Make(bytes);
      if (fresh == nullptr) return Replaced::kNoMemory;
      while (!value_.compare_exchange_weak(old, fresh, std::memory_order_acq_rel)) {
        if (old != nullptr) continue;
        std::free(fresh);
        return Replaced::kWasEmpty;
      }
      RetireValue(scope, old);
      return Replaced::kYes;
    }
    // Whether there was one.
    bool Clear(Scope& scope) {
      Value* old = value_.exchange(nullptr, std::memory_order_acq_rel);
      RetireValue(scope, old);
      return old != nullptr;
    }

   private:
    struct Value {
      size_t size;
      char bytes[];
    };
    static ValueView ViewOf(const Value* v) {
      return v == nullptr ? ValueView{} : ValueView{v->bytes, v->size};
    }
    static Value* Make(std::string_view bytes) {
      auto* v = static_cast<Value*>(std::malloc(sizeof(Value) + bytes.size()));
      if (v == nullptr) return nullptr;
      v->size = bytes.size();
      std::memcpy(v->bytes, bytes.data(), bytes.size());
      return v;
    }
    static void RetireValue(Scope& scope, Value* v) {
      if (v != nullptr) scope.Retire(v, &std::free);
    }

    std::atomic<Value*> value_{nullptr};
  };
};

}  // namespace crest
