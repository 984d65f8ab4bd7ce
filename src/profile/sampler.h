// The samples: which live objects were sampled, the stack and the size that each came with, and
// running sums for each stack and size from which every profile is made. Sits in profile, beside
// the heap; knows of it only the page map, where it flags the pages that hold sampled objects (see
// base/size_class.h). Knows no clock, no thread and no stack walk: it notes what it is given, so
// that tests drive it as they like.
//
// A sampled block lies where any other would, so that sampling moves nothing that it observes, and
// the fragmentation profile sees samples among their real neighbours. A header, or pages of their
// own, would change both.
//
// Estimates are unbiased: an object in which L samples were expected was sampled with the chance
// p = 1 - exp(-L), and stands for 1/p objects.
//
// Thread-safe: one lock, held for some hundred instructions, or for a batch of those who visit all.
// MayHold takes none. A signal handler that interrupted the holder and allocates or frees, which it
// should not, is not counted: a block that it frees stays a sample until the next at its address is
// freed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "base/units.h"
#include "profile/contexts.h"
#include "profile/lifetimes.h"
#include "profile/sample_countdown.h"
#include "profile/sampler_stats.h"
#include "span/page_map.h"

namespace strata {

// Sums of the samples of one stack and size, weighted.
struct SampleSums {
  uint64_t samples = 0;  // taken; not weighted
  double allocated_objects = 0;
  double allocated_bytes = 0;
  double live_objects = 0;
  double live_bytes = 0;
  double peak_objects = 0;  // live when the sum of all live bytes was highest
  double peak_bytes = 0;
  int64_t live_samples = 0;  // not weighted
  int64_t peak_samples = 0;
  Lifetimes lifetimes;
};

// What names the place that allocates (lifetime/site.h), and how many words above the frame of the
// library's that named it the return addresses of the frames after the first lie; 0: not known.
struct SampleSite {
  static constexpr size_t kMostFrames = 12;

  uint64_t key = 0;  // 0: none
  uint16_t words_up[kMostFrames] = {};
};

struct SampleRow {
  size_t number = 0;          // among all rows, from 0; for ever
  SampleRow* next = nullptr;  // of the same context
  SampleSite site;            // what the first block's event said
  StackContext* context = nullptr;
  size_t bytes = 0;   // size of the objects, rounded up to a class, or to an eighth of a doubling
  uint64_t peak = 0;  // the peak that sums.peak_* tell about; if it is not the last, live_* do
  SampleSums sums;
  LifetimeHistogram* histogram = nullptr;  // made when the first object is freed
  // What a model says of the row (base/placement.h); 0: it was not asked. Written and read without
  // the lock: nothing else hangs on it.
  mutable std::atomic<uint8_t> predicted{0};
};

// One sampled object that lives. `address` and `next` are read without the lock.
struct LiveSample {
  std::atomic<uintptr_t> address{0};  // 0: the record is free
  std::atomic<LiveSample*> next{nullptr};
  SampleRow* row = nullptr;
  SampleRow* first_row = nullptr;  // that counts it among the allocated objects
  size_t size = 0;                 // asked for
  size_t allocated = 0;            // the same, with all that realloc added since
  uint64_t born_ns = 0;
  uint32_t thread = 0;
  uint32_t cpu = 0;

  // Samples expected in the bytes that were counted for it, and so how many objects like it there
  // are. The weight is kept: working it out costs as much as all the rest of a free.
  double expected() const { return expected_; }
  double weight() const { return weight_; }
  void SetExpected(double expected) {
    expected_ = expected;
    weight_ = 1 / ChanceOfSample(expected);
  }

 private:
  double expected_ = 0;
  double weight_ = 0;
};

// What happens to a block, and who does it.
struct SampleEvent {
  uintptr_t address = 0;
  uint64_t now_ns = 0;
  uint32_t thread = 0;
  uint32_t cpu = 0;
  const SampleSite* site = nullptr;  // of an allocation; null: unknown
};

class Sampler {
 public:
  static constexpr size_t kMostLive = size_t{1} << 20;
  static constexpr size_t kMostRows = size_t{1} << 15;
  // The last of them are for the stack that stands for those without room: more than there are
  // sizes.
  static constexpr size_t kOverflowRows = 512;

  // The pages are those of so many bytes from `base` on; a block elsewhere has no page to flag.
  Sampler(PageMap& pages, uintptr_t base, size_t window, MetadataArena& arena)
      : pages_(pages), base_(base), window_(window), arena_(arena), contexts_(arena) {}
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // Mean bytes between samples; 0: off. Samples already taken stay.
  void SetInterval(size_t bytes) STRATA_EXCLUDES(lock_);
  // The same without the lock, for the only thread of a child that began anew.
  void SetIntervalInChild(size_t bytes);
  SampleRate rate() const {
    const uint64_t both = rate_.load(std::memory_order_relaxed);
    return {static_cast<size_t>(both & kIntervalMask),
            static_cast<uint32_t>(both >> kIntervalBits) + 1};
  }

  // A live block of `size` bytes is sampled, of which `expected` samples were expected. Flags its
  // page. False: no memory, or a table is full; the block is like any other then. `weight`, if
  // asked for: how many objects the sample stands for.
  bool Add(const SampleEvent& e, size_t size, double expected, const uintptr_t* stack, size_t depth,
           double* weight = nullptr) STRATA_EXCLUDES(lock_);

  // A place that allocates, whether or not a block of it is ever sampled: it has a row from now on.
  void NotePlace(const SampleSite& site, size_t size, const uintptr_t* stack, size_t depth)
      STRATA_EXCLUDES(lock_);

  // The block is about to be freed. False: it is not sampled.
  bool Remove(const SampleEvent& e) STRATA_EXCLUDES(lock_);

  // The block is resized, and lies at `to` now, which may be where it was. It keeps its stack and
  // the time of its birth. `more_expected`: samples expected in the bytes that it grew by. False:
  // it is not sampled.
  bool Move(uintptr_t from, uintptr_t to, size_t size, double more_expected,
            double* weight = nullptr) STRATA_EXCLUDES(lock_);

  // False if the block at this address is surely not sampled. True if it is, and now and then
  // otherwise: when it can't be told without the lock. For blocks on flagged pages or on none.
  bool MayHold(uintptr_t address) const;

  // So many different stacks came that there is no room for as many more. Once true it stays so.
  bool StacksAreScarce() const { return stacks_are_scarce_.load(std::memory_order_relaxed); }

  SamplerStats Stats() const STRATA_EXCLUDES(lock_);

  // Calls f(const SampleRow&, const SampleSums&) for each row made so far, where the sums tell what
  // was live at the last peak; f(const LiveSample&) for each live sample. Both with the lock held,
  // which is dropped in between so that nobody waits for long. A sample that comes or goes
  // meanwhile is seen or not; one that is moved is seen once, as its record stays.
  template <class F>
  void VisitRows(F f) const STRATA_EXCLUDES(lock_);
  // Where f takes long, `batch` should be small: so many calls are made before the lock is dropped.
  template <class F>
  void VisitLive(F f, size_t batch = kBatch) const STRATA_EXCLUDES(lock_);
  size_t rows() const { return num_rows_.load(std::memory_order_relaxed); }

  Lock& lock() const STRATA_RETURN_CAPABILITY(lock_) { return lock_; }

 private:
  static constexpr size_t kIntervalBits = 41;
  static constexpr uint64_t kIntervalMask = (uint64_t{1} << kIntervalBits) - 1;
  static constexpr size_t kLiveChunk = 1024;
  static constexpr size_t kRowChunk = 64;
  static constexpr size_t kFirstBuckets = 256;
  static constexpr size_t kBatch =
      256;  // records looked at before the lock is dropped for a moment
  // A look-up without the lock gives up after so many records: others may be relinking them.
  static constexpr size_t kMostSteps = 4096;

  struct Directory {
    size_t shift = 0;  // 64 less the bits of a bucket's number
    std::atomic<LiveSample*>* buckets() {
      return reinterpret_cast<std::atomic<LiveSample*>*>(this + 1);
    }
    const std::atomic<LiveSample*>* buckets() const {
      return reinterpret_cast<const std::atomic<LiveSample*>*>(this + 1);
    }
    size_t size() const { return size_t{1} << (64 - shift); }
    // By page, so that the samples of one page share a bucket.
    size_t BucketOf(uintptr_t address) const {
      return static_cast<size_t>(((address >> kPageShift) * 0x9e3779b97f4a7c15u) >> shift);
    }
  };

  class Change;  // makes look-ups without the lock fail while it lives

  // The thread holds the lock, and not for a fork, in which it passes: what it does now is a signal
  // handler's, and must not wait.
  bool IsInterrupted() const { return lock_.HeldByThisThread() && !Lock::ThisThreadForks(); }
  bool HasPage(uintptr_t address) const { return address - base_ < window_; }
  PageId PageOf(uintptr_t address) const { return PageId((address - base_) >> kPageShift); }
  SampleRow* RowOf(const SampleSite* site, size_t size, const uintptr_t* stack, size_t depth)
      STRATA_REQUIRES(lock_);
  SampleRow* RowFor(StackContext* context, size_t size) STRATA_REQUIRES(lock_);
  SampleRow* FindRow(StackContext* context, size_t bytes) const STRATA_REQUIRES(lock_);
  bool MakeChunks() STRATA_REQUIRES(lock_);
  SampleRow* NewRow() STRATA_REQUIRES(lock_);
  LiveSample* NewLive() STRATA_REQUIRES(lock_);
  Directory* MakeDirectory(size_t buckets) STRATA_REQUIRES(lock_);
  bool MakeRoom() STRATA_REQUIRES(lock_);
  void Link(LiveSample* s, uintptr_t address) STRATA_REQUIRES(lock_);
  LiveSample* Unlink(uintptr_t address) STRATA_REQUIRES(lock_);
  LiveSample* Find(uintptr_t address) STRATA_REQUIRES(lock_);
  void ChangeLive(SampleRow& row, int samples, double objects, double bytes) STRATA_REQUIRES(lock_);
  void NotePeak() STRATA_REQUIRES(lock_);

  PageMap& pages_;
  const uintptr_t base_;
  const size_t window_;
  MetadataArena& arena_;
  std::atomic<uint64_t> rate_{0};
  mutable Lock lock_{LockRank::kSampler};
  // Odd while records are being linked; written under the lock.
  std::atomic<uint32_t> changes_{0};
  std::atomic<Directory*> directory_{nullptr};  // written under the lock

  ContextTable contexts_ STRATA_GUARDED_BY(lock_);
  // Records in pieces that stay where they are. Made with the first sample: a program that ends
  // before it touches none of this.
  struct Chunks {
    SampleRow* rows[kMostRows / kRowChunk];
    LiveSample* live[kMostLive / kLiveChunk];
  };
  Chunks* chunks_ STRATA_GUARDED_BY(lock_) = nullptr;
  std::atomic<size_t> num_rows_{0};             // written under the lock
  std::atomic<bool> stacks_are_scarce_{false};  // written under the lock
  size_t live_made_ STRATA_GUARDED_BY(lock_) = 0;
  LiveSample* free_live_ STRATA_GUARDED_BY(lock_) = nullptr;
  size_t live_ STRATA_GUARDED_BY(lock_) = 0;
  uint64_t samples_ STRATA_GUARDED_BY(lock_) = 0;
  uint64_t dropped_ STRATA_GUARDED_BY(lock_) = 0;
  double live_bytes_ STRATA_GUARDED_BY(lock_) = 0;
  double peak_bytes_ STRATA_GUARDED_BY(lock_) = 0;
  uint64_t peak_ STRATA_GUARDED_BY(lock_) = 0;  // numbers the peaks
};

template <class F>
void Sampler::VisitRows(F f) const {
  for (size_t from = 0;; from += kBatch) {
    LockHolder hold(lock_);
    const size_t n = rows();
    for (size_t i = from; i < n && i < from + kBatch; ++i) {
      const SampleRow& row = chunks_->rows[i / kRowChunk][i % kRowChunk];
      SampleSums sums = row.sums;
      if (row.peak != peak_) {
        sums.peak_objects = sums.live_objects;
        sums.peak_bytes = sums.live_bytes;
        sums.peak_samples = sums.live_samples;
      }
      f(row, static_cast<const SampleSums&>(sums));
    }
    if (from + kBatch >= n) return;
  }
}

template <class F>
void Sampler::VisitLive(F f, size_t batch) const {
  for (size_t from = 0;; from += batch) {
    LockHolder hold(lock_);
    for (size_t i = from; i < live_made_ && i < from + batch; ++i) {
      const LiveSample& s = chunks_->live[i / kLiveChunk][i % kLiveChunk];
      if (s.address.load(std::memory_order_relaxed) != 0) f(s);
    }
    if (from + batch >= live_made_) return;
  }
}

}  // namespace strata
