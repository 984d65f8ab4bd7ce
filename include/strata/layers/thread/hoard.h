// Hoard: a heap for each processor, made of superblocks, and a global heap between them. A block
// goes back to the superblock it was cut from, whoever frees it, so what one processor allocates
// shares no cache line with what another does; and a processor's heap parts with superblocks as
// soon as it is more than f empty and has K to spare, so that others get what it does not use.
// E. Berger, K. McKinley, R. Blumofe and P. Wilson, "Hoard: a scalable memory allocator for
// multithreaded applications", ASPLOS 2000, section 3.
#pragma once

#include <algorithm>

#include "strata/layers/detail/aligned_run.h"
#include "strata/layers/detail/hoard_global.h"
#include "strata/layers/detail/hoard_lenders.h"
#include "strata/layers/detail/hoard_spares.h"
#include "strata/layers/detail/hoard_traits.h"
#include "strata/layers/detail/misuse.h"

namespace strata::layers {

// For each size class, with U the most that was ever in use at once,
//
//   memory held <= U / (1 - f) + P * K * S
//
// where U counts whole superblocks' worth of objects, and K is slack_objects' worth if that is
// more; hoard_bin.h has the invariant and hoard_global.h the argument. Of all classes together
// there are at most as many superblocks as objects in use, and spares + kept empty ones for each
// heap. Blocks larger than half a superblock come from below, each in a run of its own, of which
// large_spares stay for each length and heap. Superblocks that are empty go back below, but for a
// few.
//
// A superblock's bin is chosen by the current CPU (Traits::Which), so a heap is a CPU's only as
// long as the thread stays there; the lock keeps that harmless. Lock order: a processor's bin, a
// shard, the spares, what is below; a second bin's lock is only tried.
template <class Traits = HoardTraits<>>
struct Hoard {
  template <Heap Below>
  class On : public Over<Below> {
    static constexpr size_t kUnit = Traits::superblock;
    using Sync = typename Traits::Sync;
    using Global = HoardGlobal<kUnit, Traits::Classes::count, Traits::shards, Sync>;
    using Spares = HoardSpares<Below, Traits::spares, Traits::heaps, Sync, Traits::borrows_from>;
    using Runs = HoardSpares<Below, Traits::large_spares, Traits::heaps, Sync>;
    using Run = AlignedRun<kUnit>;
    using Large = LargeRun<kUnit>;
    static_assert(Below::alignment % kUnit == 0,
                  "Hoard needs runs aligned to its superblocks, such as AlignedMmap gives");
    static_assert(Below::thread_safe, "Hoard: the heap below is shared; it must lock");
    static_assert(!internal::OneSize<Below>(),
                  "Hoard asks for runs of many sizes: put Fixed<bytes> or Bins between it and a "
                  "FreeList or Inbox");
    static_assert(Traits::Classes::largest <= Run::kRoom);

   public:
    using Classes = typename Traits::Classes;
    using Bin = typename Global::Bin;
    using Block = typename Bin::Block;
    static constexpr size_t alignment = kDefaultAlignment;
    static constexpr bool thread_safe = true;
    static constexpr size_t superblock = kUnit;

    template <class... Args>
      requires std::constructible_from<Below, Args...>
    constexpr explicit On(const HoardOptions& options, Args&&... args)
        : Over<Below>(std::forward<Args>(args)...),
          heaps_(std::clamp<size_t>(options.heaps, 1, Traits::heaps)),
          thresholds_{std::clamp(options.thresholds.empty_sixteenths, 1u, 15u),
                      std::max<size_t>(options.thresholds.slack, 1),
                      options.thresholds.slack_objects},
          global_(std::clamp<size_t>(options.shards, 1, Traits::shards)) {
      spares_.Begin(this->next_, heaps_, kUnit);
      for (size_t i = 0; i < kRuns; ++i) runs_[i].Begin(this->next_, heaps_, (i + 1) * kRunStep);
    }
    template <class... Args>
      requires std::constructible_from<Below, Args...>
    constexpr explicit On(Args&&... args)
        : On(HoardOptions{.thresholds = Traits::thresholds}, std::forward<Args>(args)...) {}
    ~On() {
      visit_bins([this](Bin& bin, size_t, size_t) {
        while (Block* s = bin.groups.Any()) {
          bin.Remove(*s);
          s->End();
          this->next_.deallocate(s->base(), kUnit);
        }
      });
    }

    void* allocate(size_t size) {
      if (size > Classes::largest) [[unlikely]]
        return AllocateLarge(size);
      const size_t c = Classes::of(size);
      const size_t home = Home();
      Bin& bin = bins_[home][c];
      Holding hold(bin.lock);
      if (bin.keeps_empty) [[unlikely]]
        DropKept(bin, home);
      Block* s = bin.groups.Fullest();
      if (s == nullptr) [[unlikely]] {
        s = Refill(bin, home, c);
        if (s == nullptr) return nullptr;
      }
      return bin.Allocate(*s);
    }

    void* allocate(size_t size, size_t align) {
      if (align <= alignment) return allocate(size);
      if (size > kMaxRequest / 2 || align > kMaxRequest / 2) return nullptr;
      size = AtLeastAByte(size);
      if (size + align > Classes::largest) return AllocateLarge(size, align);
      void* p = allocate(size + align - alignment);
      if (p == nullptr) return nullptr;
      auto* aligned = reinterpret_cast<void*>(RoundUp(reinterpret_cast<uintptr_t>(p), align));
      if (aligned != p) static_cast<Block*>(Run::RecordOf(p))->NoteInside();
      return aligned;
    }

    void deallocate(void* p) {
      RunHeader* record = RecordOf(p);
      if (record->object_size == 0) [[unlikely]]
        return DeallocateLarge(*static_cast<Large*>(record));
      auto* s = static_cast<Block*>(record);
      p = s->StartOf(p);
      CheckFreed(*s, p);
      Bin* bin = Traits::Owner::Lock(*s);
      if (!FreeHolding(*bin, *s, p)) bin->lock.unlock();
    }
    void deallocate(void* p, size_t) { deallocate(p); }

    // Many at once, under as few locks as can be: for buffers above, which keep blocks as
    // superblocks do, linked and marked as free. Up to n blocks of one class from the current
    // processor's heap, whose bin is told too; fewer only when memory is out.
    size_t take(size_t c, internal::BlockStack& to, size_t n, const Bin** from) {
      const size_t home = Home();
      Bin& bin = bins_[home][c];
      *from = &bin;
      Holding hold(bin.lock);
      if (bin.keeps_empty) [[unlikely]]
        DropKept(bin, home);
      size_t taken = 0;
      while (taken < n) {
        Block* s = bin.groups.Fullest();
        if (s == nullptr && (s = Refill(bin, home, c)) == nullptr) break;
        taken += bin.AllocateTo(to, *s, n - taken);
      }
      return taken;
    }
    // The newest n of the stack, blocks that begin where their objects do.
    void give(internal::BlockStack& from, size_t n) {
      Bin* held = nullptr;
      while (n > 0) {
        auto* s = static_cast<Block*>(Run::RecordOf(from.newest()));
        const auto of_s = [s](const void* p) { return Run::BaseOf(p) == Run::BaseOf(s); };
        const internal::BlockChain chain = from.PopChain(n, of_s);
        n -= chain.count;
        if (held == nullptr || s->owner() != held) {
          if (held != nullptr) held->lock.unlock();
          held = Traits::Owner::Lock(*s);
        }
        if (FreeHolding(*held, *s, chain)) held = nullptr;
      }
      if (held != nullptr) held->lock.unlock();
    }
    // The superblock of a block that is freed and begins where its object does; else null. What is
    // no block, or is free, ends the program.
    const Block* superblock_of_freed(void* p) {
      const RunHeader* record = RecordOf(p);
      if (record->object_size == 0) return nullptr;
      auto* s = static_cast<const Block*>(record);
      if (s->has_inside()) return nullptr;
      CheckFreed(*s, p);
      return s;
    }

    size_t size_of(void* p) {
      const RunHeader* record = RecordOf(p);
      return record->object_size != 0 ? static_cast<const Block*>(record)->RoomFrom(p)
                                      : static_cast<const Large*>(record)->RoomFrom(p);
    }

    template <class F>
    void visit_locks(F&& f) {
      visit_bins([&f](Bin& bin, size_t, size_t) { f(bin.lock); });
      spares_.visit_locks(f);
      for (Runs& runs : runs_) runs.visit_locks(f);
      Over<Below>::visit_locks(f);
    }

    // Calls f(Bin&, heap or shard, size class) for each bin, those of the global heap last, which
    // is the order in which their locks may be taken.
    template <class F>
    void visit_bins(F f) {
      VisitHeaps(f);
      global_.visit_bins(f);
    }
    size_t spares() const { return spares_.kept(); }
    const HoardThresholds& thresholds() const { return thresholds_; }
    size_t heaps() const { return heaps_; }

   private:
    // The number of the caller's heap; mostly without a division.
    size_t Home() const {
      const size_t index = Traits::Which::index();
      return index < heaps_ ? index : index % heaps_;
    }

    // A superblock with a free object for a bin that has none; under the bin's lock.
    [[gnu::noinline]] Block* Refill(Bin& bin, size_t home, size_t c) {
      if constexpr (Traits::borrows_from > 0) lenders_.Note(home);
      Block* s = global_.Take(c, home, &bin);
      if (s == nullptr) {
        void* run = spares_.TakeSpare(home);
        if constexpr (Traits::borrows_from > 0) {
          if (run == nullptr && spares_.at_most()) s = Borrow(bin, home, c);
        }
        if (s == nullptr) {
          if (run == nullptr && (run = spares_.TakeNew()) == nullptr) return nullptr;
          s = Block::Begin(run, c, Classes::size(c), &bin);
        }
      }
      bin.Add(*s);
      return s;
    }

    // Another processor's superblock. Under the bin's lock, so no other bin's is waited for.
    Block* Borrow(Bin& bin, size_t home, size_t c) {
      return lenders_.Ask(home, heaps_, [&](size_t at) -> Block* {
        Bin& other = bins_[at][c];
        if (!other.lock.try_lock()) return nullptr;
        Block* s = other.Lend(thresholds_);
        if (s != nullptr) {
          if (other.keeps_empty) DropKept(other, at);
          s->set_owner(&bin);
        }
        other.lock.unlock();
        return s;
      });
    }

    // Under the bin's lock.
    [[gnu::noinline]] void PartWithOne(Bin& bin) {
      Block* s = bin.groups.Emptiest();
      bin.Remove(*s);
      global_.Put(*s, HomeOf(bin));
    }
    // The same. An empty superblock is of no class any more, and all may have it, unless it is one
    // of the few that stay. (The only one of its bin is what the next allocation takes from.)
    [[gnu::noinline]] void PartWithEmpty(Bin& bin, Block& s) {
      if (bin.capacity == s.capacity() && MayKeepEmpty(HomeOf(bin))) {
        bin.keeps_empty = true;
        return;
      }
      bin.Remove(s);
      GiveBack(s, HomeOf(bin));
    }

    bool MayKeepEmpty(size_t home) {
      if constexpr (Traits::kept == 0) return false;
      auto& kept = kept_[home].count;
      if (kept.fetch_add(1) < Traits::kept) return true;
      kept.fetch_add(SIZE_MAX);  // one less
      return false;
    }
    // An empty superblock that was kept is used again.
    void DropKept(Bin& bin, size_t home) {
      bin.keeps_empty = false;
      kept_[home].count.fetch_add(SIZE_MAX);  // one less
    }

    // Under the bin's lock; whether it was let go. A block, or a chain of blocks of s.
    template <class Blocks>
    bool FreeHolding(Bin& bin, Block& s, const Blocks& blocks) {
      bin.Free(s, blocks);
      if (bin.global) [[unlikely]] {
        FreedInGlobal(bin, s);
        return true;
      }
      // Mostly once; s may be what is parted with, and gone then.
      const size_t objects = s.capacity();
      if (s.used() == 0) [[unlikely]]
        PartWithEmpty(bin, s);
      while (bin.TooEmpty(thresholds_, objects)) PartWithOne(bin);
      return false;
    }

    // Unlocks the shard.
    [[gnu::noinline]] void FreedInGlobal(Bin& shard, Block& s) {
      if (s.used() == 0) Global::Leave(shard, s, [&] { GiveBack(s, Home()); });
      shard.lock.unlock();
    }

    void GiveBack(Block& s, size_t home) {
      s.End();
      spares_.Put(s.base(), home);
    }

    [[gnu::noinline]] void* AllocateLarge(size_t size, size_t align = kDefaultAlignment) {
      if (size > kMaxRequest - align - 2 * kUnit) return nullptr;
      size_t bytes = size + align - kDefaultAlignment + Large::kOverhead;
      void* run;
      if (IsSpared(bytes)) {
        bytes = RoundUp(bytes, kRunStep);
        run = RunsOf(bytes).Take(Home());
      } else {
        bytes = RoundUp(bytes, 4096);
        run = this->next_.allocate(bytes);
      }
      return run == nullptr ? nullptr : Large::Begin(run, bytes, align);
    }
    [[gnu::noinline]] void DeallocateLarge(Large& large) {
      large.mark = 0;
      void* const base = large.base;
      const size_t bytes = large.bytes;
      if (IsSpared(bytes)) {
        RunsOf(bytes).Put(base, Home());
      } else {
        this->next_.deallocate(base, bytes);
      }
    }

    // Runs that are one block, not much longer than a superblock, have spares, too.
    static constexpr size_t kRuns = Traits::large_spares == 0 ? 1 : 5, kRunStep = kUnit / 4;
    static constexpr bool IsSpared(size_t bytes) {
      return Traits::large_spares != 0 && bytes <= kRuns * kRunStep;
    }
    Runs& RunsOf(size_t bytes) { return runs_[(bytes - 1) / kRunStep]; }

    // Of a source that knows its memory, no other is looked at.
    RunHeader* RecordOf(void* p) const {
      RunHeader* record = Run::RecordOf(p);
      if constexpr (OwningHeap<Below>) {
        if (!this->next_.owns(record)) [[unlikely]]
          DieOfMisuse(" hoard", kNoBlock);
      }
      if (record->mark != RunHeader::kLive) [[unlikely]]
        DieOfMisuse(" hoard", kNoBlock);
      return record;
    }
    // The start of an object that the program gives back.
    static void CheckFreed(const Block& s, const void* p) {
      if (!s.IsObject(p)) [[unlikely]]
        DieOfMisuse(" hoard", kNoBlock);
      if (FreedMark::On(p)) [[unlikely]]
        DieOfMisuse(" hoard", "a block was freed twice");
    }
    static constexpr char kNoBlock[] = "freed twice, or never a block";

    template <class F>
    void VisitHeaps(F f) {
      for (size_t i = 0; i < heaps_; ++i) {
        for (size_t c = 0; c < Classes::count; ++c) f(bins_[i][c], i, c);
      }
    }
    size_t HomeOf(const Bin& bin) const {
      return static_cast<size_t>(&bin - &bins_[0][0]) / Classes::count;
    }

    size_t heaps_;
    HoardThresholds thresholds_;
    Bin bins_[Traits::heaps][Classes::count];
    struct alignas(64) KeptEmpty {
      typename Sync::template Atomic<size_t> count{0};
    };
    KeptEmpty kept_[Traits::heaps];
    Global global_;
    Spares spares_;
    HoardLenders<Traits::heaps, Sync> lenders_;
    Runs runs_[kRuns];
  };
};

}  // namespace strata::layers
