// libstrata-places.so, preloaded into a program that `strata pageutil` runs: tells the plugin of
// each block that malloc gives out and takes back, with its usable size and call stack. It is the
// recorder of libstrata-trace.so's front (src/trace/preload.cpp), which calls what follows. Outside
// of our plugin nobody hears it. Sits in tools/pageutil.
#include <pthread.h>
#include <unistd.h>

#include <atomic>

#include "base/errno_keeper.h"
#include "messages.h"
#include "os/confinement.h"
#include "profile/stack_walk.h"
#include "trace/next_malloc.h"
#include "trace/recorder.h"

extern "C" {
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char etext[] __attribute__((visibility("hidden")));
}

namespace strata::trace {
namespace {

using pageutil::Message;

enum class State : uint8_t { kOff, kStarting, kOn, kOver };
constexpr size_t kMostFrames = 64;
constinit std::atomic<State> g_state{State::kOff};
using UsableSize = size_t (*)(void*);
constinit UsableSize g_usable_size = nullptr;
constinit thread_local bool t_busy __attribute__((tls_model("initial-exec"))) = false;

// Not libc's syscall(), which would set errno: the answer is always ENOSYS.
void Tell(Message message, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0, uint64_t d = 0) {
  int64_t result = pageutil::kMessageCall;
  const auto kind = static_cast<uint64_t>(message);
  register uint64_t fourth asm("r10") = c;
  register uint64_t fifth asm("r8") = d;
  asm volatile("syscall"
               : "+a"(result)
               : "D"(kind), "S"(a), "d"(b), "r"(fourth), "r"(fifth)
               : "rcx", "r11", "memory");
}

bool On() { return g_state.load(std::memory_order_acquire) == State::kOn; }

void TellAllocation(Message message, void* p, size_t size) {
  if (p == nullptr || !On() || t_busy) return;
  t_busy = true;  // of a signal's handler that comes in between: its blocks stay unknown
  const ErrnoKeeper keep_errno;
  if (UnwindTablesStale()) RefreshUnwindTables();
  uintptr_t frames[kMostFrames];
  const size_t depth = WalkStack(frames, kMostFrames);
  const size_t usable = g_usable_size != nullptr ? g_usable_size(p) : size;
  Tell(message, reinterpret_cast<uintptr_t>(p), usable, reinterpret_cast<uintptr_t>(frames), depth);
  t_busy = false;
}

void End() { g_state.store(State::kOver, std::memory_order_relaxed); }

}  // namespace

void StartRecording() {
  State expected = State::kOff;
  if (environ == nullptr ||
      !g_state.compare_exchange_strong(expected, State::kStarting, std::memory_order_acquire))
    return;
  const ErrnoKeeper keep_errno;
  t_busy = true;
  Tell(Message::kOwnCode, reinterpret_cast<uintptr_t>(__ehdr_start),
       reinterpret_cast<uintptr_t>(etext));
  g_usable_size = reinterpret_cast<UsableSize>(FindNext("malloc_usable_size"));
  FindInheritedConfinement();  // else a walk stays on the page that it begins on
  RefreshUnwindTables();
  // A child of fork is not measured.
  pthread_atfork(HoldWalkersBeforeFork, ReleaseWalkersAfterFork, End);
  t_busy = false;
  g_state.store(State::kOn, std::memory_order_release);
}

void RecordAllocation(Operation, void* p, size_t size, size_t) {
  TellAllocation(Message::kAllocated, p, size);
}
void RecordAllocationOnce(Operation, void* p, size_t size, size_t) {
  TellAllocation(Message::kAllocatedOnce, p, size);
}

void RecordFree(void* p) {
  if (p != nullptr && On()) Tell(Message::kFreed, reinterpret_cast<uintptr_t>(p));
}
void ExpectFreeBelow(void*) {}  // the plugin knows which blocks live

// The old block ends before the call, and lives again if the call fails.
uint64_t BeginRealloc(void* p) {
  RecordFree(p);
  return p != nullptr;
}
void EndRealloc(uint64_t, void* old_block, void* p, size_t size) {
  if (p == nullptr && size != 0) p = old_block;
  TellAllocation(Message::kAllocated, p, size);
}

void FinishRecording() { End(); }

}  // namespace strata::trace
