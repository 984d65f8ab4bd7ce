// The tier below a cache, for tests: a pool of numbered objects that are only addresses. It knows
// which of them it has given out, so an object that comes back twice ends the test at once. A hook
// runs in the middle of each call.
#pragma once

#include <functional>
#include <set>
#include <vector>

#include "base/check.h"
#include "span/size_classes.h"

namespace strata::test {

class FakeTransfer {
 public:
  FakeTransfer() : pools_(kNumClasses) {}

  size_t Take(SizeClass c, void** out, size_t n) {
    ++takes;
    STRATA_CHECK(n != 0 && n <= kMaxBatch);
    if (on_call) on_call();
    if (limit != 0 && out_.size() + n > limit) n = limit > out_.size() ? limit - out_.size() : 0;
    std::vector<void*>& pool = pools_[Raw(c)];
    for (size_t i = 0; i < n; ++i) {
      if (pool.empty()) pool.push_back(NewObject(c));
      out[i] = pool.back();
      pool.pop_back();
      STRATA_CHECK(out_.insert(out[i]).second);
    }
    return n;
  }

  void Give(SizeClass c, void* const* objects, size_t n) {
    ++gives;
    STRATA_CHECK(n != 0 && n <= kMaxBatch);
    if (on_call) on_call();
    if (on_give) on_give(c, objects, n);
    for (size_t i = 0; i < n; ++i) {
      STRATA_CHECK(ClassOf(objects[i]) == c);
      STRATA_CHECK(out_.erase(objects[i]) == 1);
      pools_[Raw(c)].push_back(objects[i]);
    }
  }

  static SizeClass ClassOf(const void* object) {
    return static_cast<SizeClass>(reinterpret_cast<uintptr_t>(object) >> 40);
  }

  size_t out() const { return out_.size(); }
  bool IsOut(void* object) const { return out_.contains(object); }

  size_t limit = 0;  // most objects given out at a time; 0: any
  size_t takes = 0, gives = 0;
  std::function<void()> on_call;                                 // what other threads do meanwhile
  std::function<void(SizeClass, void* const*, size_t)> on_give;  // the same, with what comes

 private:
  // An address that names its class and is aligned as any class wants; nobody reads what is there.
  void* NewObject(SizeClass c) {
    return reinterpret_cast<void*>((uintptr_t{Raw(c)} << 40) + ++made_ * kPageSize);
  }

  std::vector<std::vector<void*>> pools_;
  std::set<void*> out_;
  uintptr_t made_ = 0;
};

}  // namespace strata::test
