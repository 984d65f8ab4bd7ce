// Hoard's global heap: the superblocks that processors' heaps parted with, for any of them to take.
// It is split into shards so that processors which part with superblocks at the same time do not
// meet at one lock: a superblock goes to the shard of the one who parts with it, and is looked for
// there first and then in every other.
//
// Why the bound of one global heap still holds. Memory of a class grows only when Take gave null.
// `puts` counts the superblocks that ever came, each counted after it can be found. If it is the
// same before and after the search of all shards, then none came between, each shard was found
// empty, and so at the second look none holds anything: all superblocks of the class are in
// processors' heaps, where the invariant of hoard_bin.h bounds them. If it is not the same, another
// thread freed something, and the search begins anew. The caller holds the lock of its own bin,
// which is full, until it has added the new superblock, so the invariant holds with that superblock
// counted from the second look on, and many callers that grow at once need no more room in the
// bound than one. A superblock that is being moved counts where it was until it arrives.
//
// With one shard this is the paper's heap 0; sharding by processor is from the project's later
// history (papers §6.5). A superblock's bin must be locked before a shard, never the other way.
#pragma once

#include "strata/layers/hoard_bin.h"

namespace strata::layers {

template <size_t kUnit, size_t kClasses, size_t kMostShards, class Sync>
class HoardGlobal {
 public:
  using Bin = HoardBin<kUnit, Sync>;
  using Block = typename Bin::Block;

  constexpr explicit HoardGlobal(size_t shards) : shards_(shards) {
    for (auto& shard : bins_) {
      for (Shard& bin : shard) bin.global = true;
    }
  }

  // From a bin whose lock is held, of a superblock that is on no list.
  void Put(Block& s, size_t home) {
    const size_t c = s.size_class();
    Shard& shard = bins_[home % shards_][c];
    Holding hold(shard.lock);
    s.set_owner(&shard);
    shard.Add(s);
    ++shard.blocks;
    shard.present.store(shard.blocks);
    puts_[c].count.fetch_add(1);  // not before `present`, see above
  }

  // One of the fullest of a shard, for the bin `to`, whose lock is held; null: there is none.
  Block* Take(size_t c, size_t home, Bin* to) {
    for (;;) {
      const size_t before = puts_[c].count.load();
      for (size_t i = 0; i < shards_; ++i) {
        Shard& shard = bins_[(home + i) % shards_][c];
        if (shard.present.load() == 0) continue;
        Holding hold(shard.lock);
        Block* s = shard.groups.Fullest();
        if (s == nullptr) continue;
        Take(shard, *s);
        s->set_owner(to);
        return s;
      }
      if (puts_[c].count.load() == before) return nullptr;
    }
  }

  // A superblock whose last object came back while it was here; its shard is locked.
  static void Take(Bin& bin, Block& s) {
    auto& shard = static_cast<Shard&>(bin);
    shard.Remove(s);
    --shard.blocks;
    shard.present.store(shard.blocks);
  }

  template <class F>
  void VisitBins(F f) {
    for (size_t i = 0; i < shards_; ++i) {
      for (size_t c = 0; c < kClasses; ++c) f(bins_[i][c], i, c);
    }
  }

 private:
  struct Shard : Bin {
    size_t blocks = 0;
    // The same for those who have no lock.
    typename Sync::template Atomic<size_t> present{0};
  };
  struct alignas(64) Puts {
    typename Sync::template Atomic<size_t> count{0};
  };

  size_t shards_;
  Shard bins_[kMostShards][kClasses];
  Puts puts_[kClasses];
};

}  // namespace strata::layers
