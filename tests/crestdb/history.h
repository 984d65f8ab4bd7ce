// What threads did to keys of a store, each operation with the moments when it began and ended, and
// whether it could have been done in one order, each operation at one moment between these two
// (Herlihy and Wing, "Linearizability", TOPLAS 12(3), 1990). Keys are independent, so each has a
// history of its own (their theorem 1, locality).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <utility>
#include <vector>

namespace crest {

struct HistoryEvent {
  enum class Kind : uint8_t { kGet, kPut, kRemove };
  static constexpr uint64_t kNone = 0;

  uint64_t began;
  uint64_t ended;
  Kind kind;
  // What a get found, kNone if nothing; what a put wrote; what a remove found: kNone if nothing,
  // else anything.
  uint64_t value;
};

// One key's events by thread, those of a thread in its order.
using KeyHistory = std::vector<std::vector<HistoryEvent>>;

// Goes through all that may have been: how many events of each thread have happened, and what the
// key had then. Few threads run at once, so there are few such states.
class LinearizabilityCheck {
 public:
  explicit LinearizabilityCheck(const KeyHistory& history) : history_(history) {}

  bool Passes() {
    std::vector<State> open{State{std::vector<size_t>(history_.size(), 0), HistoryEvent::kNone}};
    std::set<State> seen(open.begin(), open.end());
    while (!open.empty()) {
      const State state = std::move(open.back());
      open.pop_back();
      const uint64_t first_end = FirstEnd(state);
      if (first_end == kNever) return true;  // all has happened
      for (size_t thread = 0; thread < history_.size(); ++thread) {
        const HistoryEvent* next = Next(state, thread);
        // It cannot come before one that had ended when it began.
        if (next == nullptr || next->began > first_end) continue;
        State after = state;
        if (!Happen(*next, after.value)) continue;
        ++after.happened[thread];
        if (seen.insert(after).second) open.push_back(std::move(after));
      }
    }
    return false;
  }

 private:
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

  struct State {
    std::vector<size_t> happened;
    uint64_t value;
    auto operator<=>(const State&) const = default;
  };

  const HistoryEvent* Next(const State& state, size_t thread) const {
    const auto& events = history_[thread];
    return state.happened[thread] < events.size() ? &events[state.happened[thread]] : nullptr;
  }
  uint64_t FirstEnd(const State& state) const {
    uint64_t first = kNever;
    for (size_t thread = 0; thread < history_.size(); ++thread) {
      if (const HistoryEvent* next = Next(state, thread); next != nullptr)
        first = std::min(first, next->ended);
    }
    return first;
  }
  // False: it cannot have had that result.
  static bool Happen(const HistoryEvent& event, uint64_t& value) {
    switch (event.kind) {
      case HistoryEvent::Kind::kGet:
        return value == event.value;
      case HistoryEvent::Kind::kPut:
        value = event.value;
        return true;
      case HistoryEvent::Kind::kRemove:
        break;
    }
    const bool found = value != HistoryEvent::kNone;
    value = HistoryEvent::kNone;
    return found == (event.value != HistoryEvent::kNone);
  }

  const KeyHistory& history_;
};

inline bool IsLinearizable(const KeyHistory& history) {
  return LinearizabilityCheck(history).Passes();
}

}  // namespace crest
