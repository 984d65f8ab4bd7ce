// The protocol of moves (src/hotness/mover.h) as a small model, all of whose interleavings are
// searched: a reader, a writer, a thread that frees, and the collector, at one object. Each step is
// one access to shared memory, in the order of the code; memory is sequentially consistent, which
// is what the code's seq_cst accesses buy. A mutant leaves out one thing that the code does.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <vector>

namespace strata::model {

enum class Mutant : uint8_t {
  kNone,
  kReaderDoesNotList,
  kReaderDoesNotLookAgain,
  kReaderLeavesTheLock,
  kNoLookWhoUsesIt,
  kNoWaitForOldOperations,
  kStoreInsteadOfExchange,
  kFreesOldBeforeExchange,
  kReadsGuideWithoutOwnersLock,
  kOwnerSetAfterExchange,
  kDisownWithoutLock,
  kFreesWithoutWaiting,
  kLooksBeforeItLocks,
};

// Who frees: the one owner, with nobody else at the guide, or one that takes the object out of a
// guide that others read.
enum class Freeing : uint8_t { kByOwner, kShared };

struct State {
  // Places of the object: 1 old, 2 the copy.
  uint8_t guide_at = 1;
  uint8_t guide_locked = 0;
  uint8_t guide_gone = 0;             // its memory was given back
  uint8_t owned[3] = {0, 1, 0};       // 0 free, 1 by the guide, 2 by nobody
  uint8_t owner_lock[3] = {0, 0, 0};  // 0 or the number of who has it, plus 1
  uint8_t live[3] = {0, 1, 0};        // may be touched
  uint8_t value[3] = {0, 7, 0};
  uint8_t latest = 7;
  uint8_t lists = 0;  // the phase
  // Operations: 0 the reader's, 1 the writer's, 2 that of who frees from a shared guide.
  uint8_t in[3] = {0, 0, 0};       // 0 none, 1 begun and phase not known, 2 old phase, 3 lists
  uint8_t listed[3] = {0, 0, 0};   // place
  uint8_t at[4] = {0, 0, 0, 0};    // program counters: reader, writer, who frees, collector
  uint8_t seen[4] = {0, 0, 0, 0};  // what each loaded
  uint8_t waits_for = 0;           // operations that ran when the object was retired
  uint8_t moved = 0;

  friend bool operator<(const State& a, const State& b) { return memcmp(&a, &b, sizeof a) < 0; }
};

class Model {
 public:
  Model(Mutant mutant, Freeing freeing, bool with_reader, bool with_writer, bool with_freeing)
      : mutant_(mutant), freeing_(freeing), runs_{with_reader, with_writer, with_freeing, true} {}

  // Empty: no interleaving goes wrong. Else what went wrong in one.
  std::string Search() {
    std::vector<State> open{State{}};
    seen_.insert(open.back());
    while (!open.empty() && wrong_.empty()) {
      const State s = open.back();
      open.pop_back();
      bool stuck = true, done = true;
      for (int who = 0; who < 4; ++who) {
        if (!runs_[who] || s.at[who] == kEnd) continue;
        done = false;
        State next = s;
        if (!Step(next, who)) continue;
        stuck = false;
        if (seen_.insert(next).second) open.push_back(next);
      }
      if (done) CheckEnd(s);
      if (!done && stuck) wrong_ = "nobody can go on";
    }
    return wrong_;
  }
  size_t states() const { return seen_.size(); }
  bool ever_moved() const { return moved_; }
  bool ever_aborted() const { return aborted_; }

 private:
  static constexpr uint8_t kEnd = 99;
  static constexpr int kReader = 0, kWriter = 1, kFreer = 2, kCollector = 3;

  void Wrong(const char* what) {
    if (wrong_.empty()) wrong_ = what;
  }
  bool Is(Mutant m) const { return mutant_ == m; }

  void ReadGuide(const State& s) {
    if (s.guide_gone) Wrong("a guide was read that is gone");
  }
  void Touch(const State& s, uint8_t place) {
    if (place == 0 || !s.live[place]) Wrong("an object was used that is not there");
  }

  bool Step(State& s, int who) {
    if (who == kReader || who == kWriter) return StepUser(s, who);
    if (who == kFreer) return freeing_ == Freeing::kByOwner ? StepOwner(s) : StepShared(s);
    return StepCollector(s);
  }

  // Begins, gets, uses, ends. False: waits.
  bool StepUser(State& s, int who) {
    uint8_t& at = s.at[who];
    switch (at) {
      case 0:
        s.in[who] = 1;
        break;
      case 1:
        s.in[who] = s.lists ? 3 : 2;
        break;
      case 2:
        ReadGuide(s);
        s.seen[who] = s.guide_at;
        if (s.guide_at == 0)
          at = 7;  // empty
        else if (s.in[who] == 2)
          at = 5;
        break;
      case 3:
        if (!Is(Mutant::kReaderDoesNotList)) s.listed[who] = s.seen[who];
        if (Is(Mutant::kReaderDoesNotLookAgain)) at = 5;
        break;
      case 4:
        ReadGuide(s);
        if (s.guide_at != s.seen[who]) {
          s.listed[who] = 0;
          at = 1;
        } else if (!Is(Mutant::kReaderLeavesTheLock)) {
          s.guide_locked = 0;  // by an exchange, in one step with the look
        }
        break;
      case 5:  // uses it, twice
      case 6:
        Touch(s, s.seen[who]);
        if (s.value[s.seen[who]] != s.latest) Wrong("a write was lost");
        if (who == kWriter) s.latest = ++s.value[s.seen[who]];
        break;
      case 7:
      case 8:
        s.in[who] = s.listed[who] = 0;
        at = kEnd;
        return true;
    }
    at = at == 6 ? 8 : static_cast<uint8_t>(at + 1);
    return true;
  }

  // Disowns, frees, and gives back the memory of the guide.
  bool StepOwner(State& s) {
    uint8_t& at = s.at[kFreer];
    switch (at) {
      case 0:
        s.seen[kFreer] = s.guide_at;
        break;
      case 1: {
        const uint8_t place = s.seen[kFreer];
        if (Is(Mutant::kDisownWithoutLock)) break;
        // Not the guide's, though the guide still says so.
        if (s.owned[place] != 1 && s.guide_at == place) Wrong("a move was taken for misuse");
        if (s.owned[place] != 1 || s.owner_lock[place] != 0) {
          at = 0;
          return true;
        }
        s.owner_lock[place] = kFreer + 1;
        break;
      }
      case 2:
        s.guide_at = 0;
        break;
      case 3:
        s.owned[s.seen[kFreer]] = 2;
        s.owner_lock[s.seen[kFreer]] = 0;
        break;
      case 4:
        if (!s.live[s.seen[kFreer]]) Wrong("an object was freed twice");
        s.live[s.seen[kFreer]] = 0;
        s.owned[s.seen[kFreer]] = 0;
        break;
      case 5:
        s.guide_gone = 1;
        at = kEnd;
        return true;
    }
    ++at;
    return true;
  }

  // In an operation: gets the object, exchanges the guide for an empty one, retires the object,
  // frees it when the operations that ran then have ended.
  bool StepShared(State& s) {
    uint8_t& at = s.at[kFreer];
    switch (at) {
      case 0:
        s.in[2] = 1;
        break;
      case 1:
        s.in[2] = s.lists ? 3 : 2;
        break;
      case 2:
        s.seen[kFreer] = s.guide_at;
        if (s.in[2] == 2) at = 4;
        break;
      case 3:
        s.listed[2] = s.seen[kFreer];
        break;
      case 4:
        if (s.guide_at != s.seen[kFreer]) {
          s.listed[2] = 0;
          at = 1;
        } else {
          s.guide_locked = 0;
        }
        break;
      case 5:  // the exchange: of an address that cannot change meanwhile
        if (s.guide_at != s.seen[kFreer]) Wrong("what an operation uses has moved");
        s.guide_at = 0;
        s.guide_locked = 0;
        break;
      case 6:
        if (s.owner_lock[s.seen[kFreer]] != 0) return false;
        s.owned[s.seen[kFreer]] = 2;
        break;
      case 7:
        for (int i = 0; i < 2; ++i) s.waits_for |= s.in[i] != 0 ? 1 << i : 0;
        break;
      case 8:
        s.in[2] = s.listed[2] = 0;
        break;
      case 9:
        for (int i = 0; i < 2; ++i) {
          if ((s.waits_for >> i & 1) != 0 && s.in[i] != 0 && !Is(Mutant::kFreesWithoutWaiting))
            return false;
        }
        s.live[s.seen[kFreer]] = 0;
        s.owned[s.seen[kFreer]] = 0;
        at = kEnd;
        return true;
    }
    ++at;
    return true;
  }

  bool InUse(const State& s) const {
    for (int i = 0; i < 3; ++i) {
      if (s.in[i] != 0 && s.listed[i] == 1) return true;
    }
    return false;
  }

  bool StepCollector(State& s) {
    uint8_t& at = s.at[kCollector];
    switch (at) {
      case 0:
        s.lists = 1;
        break;
      case 1:
      case 2:
      case 3:  // waits for each operation
        if (!Is(Mutant::kNoWaitForOldOperations) && (s.in[at - 1] == 1 || s.in[at - 1] == 2))
          return false;
        break;
      case 4:
        if (s.owned[1] != 1 ||
            (s.owner_lock[1] != 0 && !Is(Mutant::kReadsGuideWithoutOwnersLock))) {
          at = 12;
          return true;
        }
        if (!Is(Mutant::kReadsGuideWithoutOwnersLock)) s.owner_lock[1] = kCollector + 1;
        break;
      case 5:
        ReadGuide(s);
        if (s.guide_at != 1) {
          at = 11;
          return true;
        }
        if (Is(Mutant::kLooksBeforeItLocks)) s.seen[kCollector] = InUse(s) ? 1 : 0;
        s.live[2] = 1;
        break;
      case 6:  // by an exchange
        ReadGuide(s);
        if (s.guide_at != 1) {
          at = 10;
          return true;
        }
        s.guide_locked = 1;
        break;
      case 7: {
        const bool used = Is(Mutant::kLooksBeforeItLocks) ? s.seen[kCollector] == 1 : InUse(s);
        if (used && !Is(Mutant::kNoLookWhoUsesIt)) {
          s.guide_locked = 0;
          at = 10;
          return true;
        }
        s.value[2] = s.value[1];
        if (Is(Mutant::kFreesOldBeforeExchange)) s.live[1] = s.owned[1] = 0;
        break;
      }
      case 8:
        if (!Is(Mutant::kOwnerSetAfterExchange)) {
          s.owned[2] = 1;
          s.owner_lock[2] = kCollector + 1;
        }
        ReadGuide(s);
        if (!Is(Mutant::kStoreInsteadOfExchange) && (s.guide_at != 1 || s.guide_locked == 0)) {
          at = 10;
          return true;
        }
        s.guide_at = 2;
        s.guide_locked = 0;
        s.moved = 1;
        break;
      case 9:  // the old place is free, the new one's owner unlocked
        s.live[1] = 0;
        s.owned[1] = s.owner_lock[1] = 0;
        s.owned[2] = 1;
        s.owner_lock[2] = 0;
        moved_ = true;
        at = 12;
        return true;
      case 10:  // the copy is dropped
        s.live[2] = s.owned[2] = s.owner_lock[2] = 0;
        aborted_ = true;
        break;
      case 11:
        s.owner_lock[1] = 0;
        break;
      case 12:
        s.lists = 0;
        at = kEnd;
        return true;
    }
    ++at;
    return true;
  }

  void CheckEnd(const State& s) {
    if (s.guide_locked) Wrong("a guide stayed locked");
    if (s.owner_lock[1] != 0 || s.owner_lock[2] != 0) Wrong("an owner stayed locked");
    const int live = s.live[1] + s.live[2];
    if (runs_[kFreer] ? live != 0 : live != 1 || !s.live[s.guide_at])
      Wrong("an object was lost or left over");
  }

  const Mutant mutant_;
  const Freeing freeing_;
  const std::array<bool, 4> runs_;
  std::set<State> seen_;
  std::string wrong_;
  bool moved_ = false;
  bool aborted_ = false;
};

}  // namespace strata::model
