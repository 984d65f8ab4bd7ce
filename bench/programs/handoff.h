// A bounded queue between threads of the pipeline programs. Its slots and its lock are not the
// allocator's; what is handed over is, so one thread allocates what another frees.
#pragma once

#include "common.h"

namespace bench {

template <typename T>
class Handoff {
 public:
  explicit Handoff(size_t capacity) : slots_(capacity) {
    pthread_mutex_init(&mutex_, nullptr);
    pthread_cond_init(&filled_, nullptr);
    pthread_cond_init(&emptied_, nullptr);
  }
  ~Handoff() {
    pthread_cond_destroy(&emptied_);
    pthread_cond_destroy(&filled_);
    pthread_mutex_destroy(&mutex_);
  }
  Handoff(const Handoff&) = delete;
  Handoff& operator=(const Handoff&) = delete;

  // Waits for room.
  void Put(T* item) {
    pthread_mutex_lock(&mutex_);
    while (count_ == slots_.size()) pthread_cond_wait(&emptied_, &mutex_);
    slots_[(first_ + count_++) % slots_.size()] = item;
    pthread_cond_signal(&filled_);
    pthread_mutex_unlock(&mutex_);
  }

  // Waits for items and takes at most `max`; 0 once the queue is closed and empty.
  size_t Take(T** out, size_t max) {
    pthread_mutex_lock(&mutex_);
    while (count_ == 0 && !closed_) pthread_cond_wait(&filled_, &mutex_);
    size_t taken = 0;
    for (; taken < max && count_ != 0; ++taken, --count_) {
      out[taken] = slots_[first_];
      first_ = (first_ + 1) % slots_.size();
    }
    if (taken != 0) pthread_cond_broadcast(&emptied_);
    pthread_mutex_unlock(&mutex_);
    return taken;
  }

  void Close() {
    pthread_mutex_lock(&mutex_);
    closed_ = true;
    pthread_cond_broadcast(&filled_);
    pthread_mutex_unlock(&mutex_);
  }

 private:
  pthread_mutex_t mutex_;
  pthread_cond_t filled_;
  pthread_cond_t emptied_;
  Array<T*> slots_;
  size_t first_ = 0;
  size_t count_ = 0;
  bool closed_ = false;
};

}  // namespace bench
