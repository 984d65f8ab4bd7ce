// Frees what operations have taken out of reach when none is left that may still look at it: epochs
// after Fraser (UCAM-CL-TR-579, 2004). One for the process; each thread claims a slot with its
// first operation and leaves what it has not freed yet to the others when it ends.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace crest {

class Reclaimer {
 public:
  using Free = void (*)(void*);

  static Reclaimer& Get();

  // An operation; may nest.
  void Enter();
  void Leave();
  // In an operation, when nobody who begins later can reach it.
  void Retire(void* object, Free free);
  // With no operation running: frees everything that waits. For tests and the end of a store.
  void DrainAll();

 private:
  static constexpr size_t kSlots = 1024;
  static constexpr unsigned kRetiredPerLook = 64;
  static constexpr size_t kEras = 3;
  struct Retired {
    void* object;
    Free free;
  };
  struct Bag {
    uint64_t era = 0;
    std::vector<Retired> objects;
  };
  struct alignas(64) Slot {
    std::atomic<uint64_t> era{0};  // in which its operation began; 0: none runs
    std::atomic<bool> taken{false};
    // The thread's own.
    unsigned depth = 0;
    unsigned since_look = 0;
    std::array<Bag, kEras> bags;
  };
  struct Ticket;

  Slot& Mine();
  void Look(Slot& slot);
  static void Empty(Bag& bag);

  std::atomic<uint64_t> era_{1};
  std::atomic<size_t> used_{0};  // slots that were ever taken
  std::array<Slot, kSlots> slots_;
};

// An operation on the stack.
class ReclaimScope {
 public:
  ReclaimScope() { Reclaimer::Get().Enter(); }
  ~ReclaimScope() { Reclaimer::Get().Leave(); }
  ReclaimScope(const ReclaimScope&) = delete;
  ReclaimScope& operator=(const ReclaimScope&) = delete;

  void Retire(void* object, Reclaimer::Free free) { Reclaimer::Get().Retire(object, free); }
};

}  // namespace crest
