// Hoard's global heap: the superblocks that processors' heaps parted with, for any of them to take.
// It is split into shards so that processors which part with superblocks at the same time do not
// meet at one lock: a superblock goes to the shard of the one who parts with it, and is looked for
// there first and then in every other. With one shard this is heap 0 of Berger et al. (ASPLOS 2000,
// section 3); shards are an idea of the project's pull requests of 2026 (emeryberger/Hoard, 88 to
// 95). A superblock's bin must be locked before a shard, never the other way.
#pragma once

#include "strata/layers/detail/hoard_bin.h"
#include "strata/layers/detail/shard_search.h"

namespace strata::layers {

// Why the bound of one global heap still holds. For one class, with n the objects in a superblock:
//
// 1. A block counts as in use from when its allocation begins to when its free ends, and U is the
//    most in use at once. A free that is under way counts in the bin where it found its block. So
//    at any moment the u of all processors' bins, counted so, are together at most U.
// 2. A superblock on its way between a bin and a shard, back, or below counts in that bin, whose
//    lock is held until it has arrived. So does a new one, from the moment in 4 on. One that is
//    lent counts in the borrower's bin as soon as it is on no list of the lender's.
// 3. Counted so, every bin of a processor keeps a <= max(u / (1 - f), u + K n) at every moment, as
//    hoard_bin.h has it: a free does not change the counts until it has ended; what it parts with
//    until then is at least f empty, which keeps the inequality; and a bin that takes a superblock
//    in is full, a = u, before, and K is at least 1. Nor does lending break it, for either: one of
//    n objects, s of them in use, leaves a bin with a - u objects free, of which n - s go. If a - u
//    was at most K n, it still is; if it was at most f a, then a - u - (n - s) <= f (a - n), since
//    n - s >= f n (Lend sees to that). (Where slack_objects is more than K n, read it for K n.)
// 4. Memory of the class grows only when Take gave null. `puts` is the number of superblocks that
//    ever arrived in a shard; by it SearchShards knows a moment at which there is no superblock of
//    the class in any shard (none there is full: it was f empty when it came, and is only freed
//    into). All are in bins at that moment, so together they are at most
//
//      sum of max(u / (1 - f), u + K n) / n  <=  U / n / (1 - f) + P K
//
//    superblocks, the new one among them. Until the next such moment their number only falls.
// 5. What leaves a shard without a bin's lock is a superblock whose last block came back there. It
//    has gone below, or to the spares, before the shard can be seen without it (Leave). Otherwise a
//    superblock for each thread in such a free would count nowhere.
// 6. Spares are of no class. More memory is asked for only after a moment without any, by the same
//    search (hoard_spares.h), so what is held, the spares among it, is at most the sum over the
//    classes at that moment; later a spare is only what some class had before.
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
    puts_[c].count.fetch_add(1);  // not before `present`, and under the lock: shard_search.h
  }

  // One of the fullest of a shard, for the bin `to`, whose lock is held; null: there is none.
  Block* Take(size_t c, size_t home, Bin* to) {
    return SearchShards(puts_[c].count, shards_, home % shards_, [&](size_t at) -> Block* {
      Shard& shard = bins_[at][c];
      if (shard.present.load() == 0) return nullptr;
      Holding hold(shard.lock);
      Block* s = shard.groups.Fullest();
      if (s != nullptr) Leave(shard, *s, [&] { s->set_owner(to); });
      return s;
    });
  }

  // A superblock leaves its shard, which is locked; `go` brings it where it goes to. Who sees the
  // shard without it, without the lock, finds it there.
  template <class F>
  static void Leave(Bin& bin, Block& s, F go) {
    auto& shard = static_cast<Shard&>(bin);
    shard.Remove(s);
    go();
    --shard.blocks;
    shard.present.store(shard.blocks);
  }

  template <class F>
  void visit_bins(F f) {
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
