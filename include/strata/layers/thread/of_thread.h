// OfThread: a pointer for each thread, and a call when a thread that has one ends. What a layer
// that keeps something for each thread takes of the machine; a test that plays threads with fibers
// puts its own in the place of it (tests/layers/hoard_interleave_test.cpp).
#pragma once

#include <pthread.h>

#include "strata/layers/detail/sync.h"
#include "strata/layers/detail/thread_key.h"
#include "strata/layers/thread/locked.h"

namespace strata::layers {

struct OfThread {
  // One for each type.
  template <class T>
  static T*& pointer() {
    static constinit thread_local T* mine = nullptr;
    return mine;
  }

  class AtEnd {
   public:
    constexpr AtEnd() = default;
    ~AtEnd() {
      if (has_key_) pthread_key_delete(key_);
    }
    AtEnd(const AtEnd&) = delete;
    AtEnd& operator=(const AtEnd&) = delete;

    // end(p) is called when the calling thread ends; always the same end. False: it can't be. This
    // may allocate.
    bool Call(void (*end)(void*), void* p) {
      return KeyIsReady(end) && pthread_setspecific(key_, p) == 0;
    }
    template <class F>
    void visit_locks(F&& f) {
      f(lock_);
    }

   private:
    bool KeyIsReady(void (*end)(void*)) {
      Holding hold(lock_);
      if (!has_key_) has_key_ = MakeThreadKey(&key_, end);
      return has_key_;
    }

    FutexLock lock_;
    bool has_key_ = false;
    pthread_key_t key_ = 0;
  };
};

}  // namespace strata::layers
