// Call stacks, each kept once. A context is never changed or dropped, so its frames may be read
// without a lock by whoever has a pointer to it. Sits in profile; the sampler's lock guards the
// table. Bounded: when it is full, one context stands for all stacks that are not in it, so that a
// program with endless stacks still has its bytes counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/metadata_arena.h"

namespace strata {

inline constexpr size_t kMaxStackDepth = 64;

struct SampleRow;

struct StackContext {
  uint64_t hash = 0;
  StackContext* next = nullptr;  // in its bucket
  SampleRow* rows = nullptr;     // one for each size seen here
  size_t depth = 0;

  // Innermost first; they follow the record itself.
  uintptr_t* frames() { return reinterpret_cast<uintptr_t*>(this + 1); }
  const uintptr_t* frames() const { return reinterpret_cast<const uintptr_t*>(this + 1); }
};

// What profiles show for the stacks beyond the bound: a function that is never called, for its
// name.
extern "C" void strata_stacks_beyond_the_table();

inline uint64_t HashFrames(const uintptr_t* frames, size_t depth) {
  uint64_t h = depth;
  for (size_t i = 0; i < depth; ++i) {
    h = (h ^ frames[i]) * 0x9e3779b97f4a7c15u;
    h ^= h >> 32;
  }
  return h;
}

class ContextTable {
 public:
  static constexpr size_t kMostContexts = 16384;  // with the one for stacks without room

  explicit ContextTable(MetadataArena& arena) : arena_(arena) {}

  // The context of this stack, or of all those without room; null: no memory.
  StackContext* Intern(const uintptr_t* frames, size_t depth) {
    return Find(frames, depth, kMostContexts - 1);
  }

  // The one that stands for the stacks without room.
  StackContext* Overflow() {
    // Profiles take frames for return addresses: one byte into the function.
    const uintptr_t frame = reinterpret_cast<uintptr_t>(strata_stacks_beyond_the_table) + 1;
    return Find(&frame, 1, kMostContexts);
  }

  size_t size() const { return size_; }
  // Half full: time to tell fewer stacks apart.
  bool IsScarce() const { return size_ >= kMostContexts / 2; }

 private:
  static constexpr size_t kFirstBuckets = 64;
  static constexpr size_t kMostBuckets = 4096;

  // Room for as many contexts as there are buckets, or more where memory is short. Most programs
  // have few stacks: a large table would have a page for each.
  bool MakeBuckets() {
    if (size_ < bucket_count_ || bucket_count_ == kMostBuckets) return true;
    const size_t count = bucket_count_ == 0 ? kFirstBuckets : bucket_count_ * 4;
    auto** fresh = static_cast<StackContext**>(
        arena_.Allocate(count * sizeof(StackContext*), alignof(StackContext*)));
    if (fresh == nullptr) return bucket_count_ != 0;
    for (size_t i = 0; i < bucket_count_; ++i) {
      for (StackContext *c = buckets_[i], *next; c != nullptr; c = next) {
        next = c->next;
        c->next = fresh[c->hash % count];
        fresh[c->hash % count] = c;
      }
    }
    buckets_ = fresh;
    bucket_count_ = count;
    return true;
  }

  StackContext* Find(const uintptr_t* frames, size_t depth, size_t most) {
    if (!MakeBuckets()) return nullptr;
    if (depth > kMaxStackDepth) depth = kMaxStackDepth;
    const uint64_t hash = HashFrames(frames, depth);
    StackContext*& bucket = buckets_[hash % bucket_count_];
    for (StackContext* c = bucket; c != nullptr; c = c->next) {
      if (c->hash == hash && c->depth == depth &&
          memcmp(c->frames(), frames, depth * sizeof(*frames)) == 0)
        return c;
    }
    if (size_ >= most) return most == kMostContexts ? nullptr : Overflow();
    void* p = arena_.Allocate(sizeof(StackContext) + depth * sizeof(*frames), 16);
    if (p == nullptr) return nullptr;
    auto* c = ::new (p) StackContext();
    c->hash = hash;
    c->depth = depth;
    memcpy(c->frames(), frames, depth * sizeof(*frames));
    c->next = bucket;
    bucket = c;
    ++size_;
    return c;
  }

  MetadataArena& arena_;
  StackContext** buckets_ = nullptr;
  size_t bucket_count_ = 0;
  size_t size_ = 0;
};

}  // namespace strata
