// Makes the calls of a plan, on whatever malloc the process has. Each slot is one thread's at a
// time: in a replay with threads, the one that waits for a slot sees what the other wrote.
#pragma once

#include <atomic>

#include "functions.h"
#include "plan.h"

namespace strata::replay {

enum class Touch { kNone, kPages };

struct Slot {
  std::atomic<void*> block{nullptr};  // null: not there yet, or ended
  uint64_t size = 0;
};

struct Progress {
  int64_t live = 0;  // bytes; of one thread it may be negative
  uint64_t failures = 0;
};

template <class Functions>
class BasicCaller {
 public:
  BasicCaller(Array<Slot>& slots, Touch touch) : slots_(slots), touch_(touch) {}

  void Do(const Step& step, Progress& progress) {
    const auto operation = static_cast<trace::Operation>(step.operation);
    if (operation == trace::Operation::kFree) return End(step, progress);
    void* p = nullptr;
    uint64_t written = 0;
    switch (operation) {
      case trace::Operation::kMalloc:
        p = Functions::Malloc(step.size);
        break;
      case trace::Operation::kCalloc:
        p = Functions::Calloc(step.size);
        break;
      case trace::Operation::kAligned:
        p = Functions::Aligned(size_t{1} << step.alignment_log2, step.size);
        break;
      default:
        p = Realloc(step, progress, &written);
    }
    if (p == nullptr) {
      progress.failures += step.size != 0;
      p = kFailed;
    } else {
      Write(static_cast<char*>(p), written, step.size);
      progress.live += static_cast<int64_t>(step.size);
    }
    Slot& slot = slots_[step.slot];
    slot.size = step.size;
    slot.block.store(p, std::memory_order_release);
  }

 private:
  static constexpr size_t kPage = 4096;
  // In place of a block that the heap did not give: there is nothing to free, but nobody waits.
  static inline char failed_{};
  static inline void* const kFailed = &failed_;

  void* TakeBlock(uint32_t from, Progress& progress, uint64_t* size) {
    Slot& slot = slots_[from];
    void* p = slot.block.load(std::memory_order_acquire);
    slot.block.store(nullptr, std::memory_order_relaxed);
    if (p == kFailed) return nullptr;
    *size = slot.size;
    progress.live -= static_cast<int64_t>(slot.size);
    return p;
  }
  void End(const Step& step, Progress& progress) {
    uint64_t size = 0;
    Functions::Free(TakeBlock(step.from, progress, &size));
  }
  // `written`: how many bytes of the new block were written as the old one's.
  void* Realloc(const Step& step, Progress& progress, uint64_t* written) {
    void* old = step.from == kNoSlot ? nullptr : TakeBlock(step.from, progress, written);
    // realloc(p, 0) may free the block: the recorded one gave a block out
    void* p = Functions::Realloc(old, step.size == 0 ? 1 : step.size);
    if (p == nullptr) Functions::Free(old);
    return p;
  }
  // As a program would that uses what it asked for: resident is what is written.
  void Write(char* p, uint64_t from, uint64_t size) {
    if (touch_ == Touch::kNone || size <= from) return;
    for (uint64_t at = from; at < size; at += kPage) p[at] = 1;
    p[size - 1] = 1;
  }

  Array<Slot>& slots_;
  Touch touch_;
};

using Caller = BasicCaller<ProcessFunctions>;

}  // namespace strata::replay
