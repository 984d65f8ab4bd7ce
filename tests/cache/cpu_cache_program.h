// An instruction program for CpuCache over fake operations: random takes and frees on random
// virtual CPUs, drains from other CPUs, migrations between any two operations, other threads' work
// while the tier below is called, memory and fences that fail, against a model of the objects the
// program holds. Limits move between CPUs meanwhile. After each instruction nothing may be
// lost, no room may exceed its CPU's limit, nor the limits their total, and every slab must be
// whole. A violation ends the process.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "../hugepage/program_bytes.h"
#include "../hugepage/test_arena.h"
#include "cache/cpu_cache.h"
#include "fake_ops.h"
#include "fake_transfer.h"

namespace strata::test {

class CpuCacheProgram {
 public:
  explicit CpuCacheProgram(ProgramBytes bytes) : bytes_(bytes), limit_(PickLimit()) {
    for (SizeClass& c : classes_) c = static_cast<SizeClass>(1 + bytes_.Below(kNumClasses - 1));
    classes_[0] = static_cast<SizeClass>(1 + bytes_.Below(3));  // for bursts
    disturbed_ = bytes_.Byte() % 2 == 0;
    transfer_.on_call = [this] { Interrupt(); };
    const CacheSizing sizing =
        bytes_.Byte() % 4 == 0 ? CacheSizing::kEqual : CacheSizing::kByMisses;
    STRATA_CHECK(
        cache_.Init(ops_, &transfer_, &memory_.arena(), cpus_.slabs(), kCpus, limit_, sizing));
  }

  void Run() {
    while (!bytes_.done()) {
      Step();
      Check();
    }
    Finish();
  }

  size_t steps() const { return steps_; }
  size_t drained_bytes() const { return drained_; }
  size_t hits() const { return hits_; }
  size_t resizes() const { return resizes_; }
  size_t interrupts() const { return interrupts_; }
  size_t most_capacity() const { return most_capacity_; }

 private:
  static constexpr size_t kCpus = 3;

  size_t PickLimit() {
    constexpr size_t kLimits[] = {0, 100, 4096, 70'000, 300'000, 1536 << 10, 64 << 20};
    return kLimits[bytes_.Byte() % std::size(kLimits)];
  }

  void Step() {
    ++steps_;
    switch (bytes_.Below(21)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
        return Take(PickClass(), 1 + bytes_.Below(64));
      case 5:
      case 6:
      case 7:
      case 8:
        return Free(PickClass(), 1 + bytes_.Below(64));
      case 9:
        return FreeTwice();
      case 10:
      case 11:
        cpus_.current = bytes_.Byte() % kCpus;
        return;
      case 12:
        return Drain(bytes_.Byte() % kCpus);
      case 13:
        drained_ += cache_.DrainIfIdle(bytes_.Byte() % kCpus, 1 + bytes_.Byte() % 2);
        return;
      case 14:
        if (!disturbed_) return;
        cpus_.migrate_in = 1 + bytes_.Below(80);
        cpus_.migrate_to = bytes_.Byte() % kCpus;
        return;
      case 15:
        transfer_.limit = bytes_.Below(3) == 0 ? transfer_.out() + bytes_.Below(200) : 0;
        return;
      case 16:
      case 17:
        return Resize([&] {
          cache_.MoveLimits(bytes_.Byte() % 2 == 0 ? LimitRound::kNeed : LimitRound::kRest);
        });
      case 18:
        return bytes_.Below(4) == 0 ? Resize([&] { Rearrange(); }) : void();
      case 19:
        return bytes_.Below(8) == 0 ? Burst() : void();
      default:
        cpus_.fence_fails = bytes_.Below(4) == 0;
        memory_.fail = bytes_.Below(4) == 0;
    }
  }

  // What takes a class's longest arrays.
  void Burst() {
    Take(classes_[0], 2000 + 40 * bytes_.Below(64));
    std::vector<void*> all(held_[classes_[0]].begin(), held_[classes_[0]].end());
    held_[classes_[0]].clear();
    for (size_t i = 0; i < all.size(); ++i) {
      if (i < all.size() / 8) {
        held_[classes_[0]].insert(all[i]);
      } else {
        FreeOne(classes_[0], all[i]);
      }
    }
  }

  // A CPU that comes into use waits for the end of a resize: others may not come upon a new one.
  template <class F>
  void Resize(F f) {
    cpus_.migrate_in = 0;
    only_in_use_ = true;
    f();
    only_in_use_ = false;
    resizes_ = 0;
    for (size_t cpu = 0; cpu < kCpus; ++cpu) resizes_ += cache_.StatsOf(cpu).resizes;
  }
  void Rearrange() {
    if (bytes_.Byte() % 2 == 0) {
      cache_.SetShare(PickLimit());
      // What a refused fence kept from being lowered stays above the new total.
      STRATA_CHECK(cpus_.fence_fails || Excess() == 0 || AnyStopped());
      excess_ = Excess();
    } else {
      cache_.SetSizing(bytes_.Byte() % 2 == 0 ? CacheSizing::kEqual : CacheSizing::kByMisses);
    }
  }
  bool AnyStopped() {
    for (size_t cpu = 0; cpu < kCpus; ++cpu) {
      for (size_t i = 1; i < kNumClasses; ++i) {
        if (cpus_.slab(cpu).header(static_cast<SizeClass>(i)).begin.load() == 0xffff) return true;
      }
    }
    return false;
  }
  // Bytes by which the limits are above their total.
  size_t Excess() {
    size_t sum = cache_.pool();
    for (size_t cpu = 0; cpu < kCpus; ++cpu) sum += cache_.limit(cpu);
    return sum > cache_.total() ? sum - cache_.total() : 0;
  }

  // What other threads, on whatever CPU, do between a miss and what the tier below answers. Not
  // while this very thread drains: then the CPU's lock is held and only the fast half moves.
  void Interrupt() {
    if (!disturbed_ || depth_ > 0 || bytes_.done() || bytes_.Byte() % 8 != 0) return;
    ++depth_;
    ++interrupts_;
    const size_t here = cpus_.current;
    cpus_.current = bytes_.Byte() % kCpus;
    if (only_in_use_ && !cache_.StatsOf(cpus_.current).in_use) {
      // nobody there
    } else if (bytes_.Byte() % 2 == 0) {
      Take(PickClass(), 1 + bytes_.Below(200));
    } else {
      Free(PickClass(), 1 + bytes_.Below(200));
    }
    cpus_.current = here;
    --depth_;
  }

  SizeClass PickClass() { return classes_[bytes_.Byte() % std::size(classes_)]; }

  void Take(SizeClass c, size_t n) {
    for (; n > 0; --n) {
      void* p = ops_.Pop(c);
      hits_ += p != nullptr;
      if (p == nullptr) p = cache_.PopSlow(c);
      if (p == nullptr) {
        STRATA_CHECK(transfer_.limit != 0);  // only when memory is short
        return;
      }
      STRATA_CHECK(FakeTransfer::ClassOf(p) == c && transfer_.IsOut(p));
      STRATA_CHECK(held_[c].insert(p).second);  // the program does not hold it already
    }
  }

  void FreeOne(SizeClass c, void* p) {
    if (ops_.Push(c, p) != PushResult::kPushed) STRATA_CHECK(cache_.PushSlow(c, p));
  }

  void Free(SizeClass c, size_t n) {
    std::set<void*>& held = held_[c];
    for (; n > 0 && !held.empty(); --n) {
      auto it = held.begin();
      std::advance(it, std::min(held.size() - 1, bytes_.Below(16)));
      void* p = *it;
      held.erase(it);
      FreeOne(c, p);
    }
  }

  // A double free of the last freed object is noticed, and nothing changes.
  void FreeTwice() {
    const SizeClass c = PickClass();
    if (held_[c].empty()) return;
    void* p = *held_[c].begin();
    held_[c].erase(held_[c].begin());
    cpus_.migrate_in = 0;
    ++depth_;  // nobody comes between
    FreeOne(c, p);
    const size_t cached = cache_.Stats(c).objects;
    if (transfer_.IsOut(p)) {  // it did not go further down
      STRATA_CHECK(ops_.Push(c, p) != PushResult::kPushed);
      STRATA_CHECK(!cache_.PushSlow(c, p));
      STRATA_CHECK(cache_.Stats(c).objects == cached);
    }
    --depth_;
  }

  void Drain(size_t cpu) {
    const size_t before = BytesIn(cpu);
    const bool whole = !cpus_.fence_fails;
    const size_t bytes = cache_.Drain(cpu);
    drained_ += bytes;
    STRATA_CHECK(bytes == (whole ? before : 0));
    if (whole) STRATA_CHECK(BytesIn(cpu) == 0 && cache_.room_bytes(cpu) == 0);
  }

  size_t CountIn(size_t cpu, SizeClass c) { return cpus_.slab(cpu).header(c).fill(); }
  size_t BytesIn(size_t cpu) {
    size_t bytes = 0;
    for (size_t i = 1; i < kNumClasses; ++i) {
      const auto c = static_cast<SizeClass>(i);
      bytes += CountIn(cpu, c) * InfoOf(c).size;
    }
    return bytes;
  }

  void Check() {
    size_t held = 0;
    for (const auto& [c, objects] : held_) held += objects.size();
    std::set<void*> seen;
    for (size_t cpu = 0; cpu < kCpus; ++cpu) {
      size_t room = 0;
      bool stopped = false;
      bool within = true;
      for (size_t i = 1; i < kNumClasses; ++i) {
        const auto c = static_cast<SizeClass>(i);
        SlabHeader& h = cpus_.slab(cpu).header(c);
        const size_t n = CountIn(cpu, c);
        const size_t end = h.end.load();
        stopped |= h.begin.load() == 0xffff;
        STRATA_CHECK(n <= InfoOf(c).cpu_slots && end <= InfoOf(c).cpu_slots);
        STRATA_CHECK(!cache_.StatsOf(cpu).in_use || (n <= h.capacity && end <= h.capacity));
        most_capacity_ = std::max<size_t>(most_capacity_, h.capacity);
        within &= n <= end;
        room += end * InfoOf(c).size;
        for (size_t at = 0; at < n; ++at) {
          void* object = h.slots()[at];
          STRATA_CHECK(FakeTransfer::ClassOf(object) == c && transfer_.IsOut(object));
          STRATA_CHECK(!held_[c].contains(object) && seen.insert(object).second);
        }
      }
      // A slab that a drain could not fence stays stopped, with its room on the books. Pushes in
      // the midst of room being taken may leave more objects than there is room, for a while.
      STRATA_CHECK(stopped || room == cache_.room_bytes(cpu));
      STRATA_CHECK(stopped || within || disturbed_);
      STRATA_CHECK(room <= cache_.room_bytes(cpu) && cache_.room_bytes(cpu) <= cache_.limit(cpu));
    }
    STRATA_CHECK(Excess() <= excess_);
    excess_ = Excess();
    size_t cached = 0;
    for (const SizeClass c : std::set<SizeClass>(std::begin(classes_), std::end(classes_)))
      cached += cache_.Stats(c).objects;
    STRATA_CHECK(cached == seen.size());
    STRATA_CHECK(cached + held == transfer_.out());
  }

  // Everything comes back.
  void Finish() {
    transfer_.on_call = nullptr;
    transfer_.limit = 0;
    cpus_.fence_fails = memory_.fail = false;
    for (auto& [c, objects] : held_) {
      for (void* p : objects) FreeOne(c, p);
      objects.clear();
    }
    for (size_t cpu = 0; cpu < kCpus; ++cpu) cache_.Drain(cpu);
    Check();
    STRATA_CHECK(transfer_.out() == 0);
    uint64_t pops = 0;
    for (size_t i = 1; i < kNumClasses; ++i) pops += cache_.Stats(static_cast<SizeClass>(i)).pops;
    STRATA_CHECK(pops == hits_);
  }

  ProgramBytes bytes_;
  TestArena memory_;
  FakeTransfer transfer_;
  FakeCpus cpus_{kCpus};
  FakeOps ops_{&cpus_};
  const size_t limit_;
  SizeClass classes_[6] = {};
  size_t most_capacity_ = 0;
  CpuCache<FakeOps, FakeTransfer> cache_;
  std::map<SizeClass, std::set<void*>> held_;
  size_t steps_ = 0;
  size_t drained_ = 0;
  size_t resizes_ = 0;
  size_t excess_ = 0;
  bool only_in_use_ = false;
  size_t hits_ = 0;
  size_t interrupts_ = 0;
  int depth_ = 0;
  bool disturbed_ = false;  // migrations and other threads in the middle of calls
};

}  // namespace strata::test
