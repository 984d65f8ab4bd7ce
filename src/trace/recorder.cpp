// The one recording of a process. See recorder.h.
#include "trace/recorder.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <bit>

#include "base/errno_keeper.h"
#include "base/message.h"
#include "base/own_variables.h"
#include "os/clock.h"
#include "os/confinement.h"
#include "profile/mappings.h"
#include "profile/stack_walk.h"
#include "strata/layers/detail/thread_key.h"
#include "strata/raw_io.h"
#include "trace/object_map.h"
#include "trace/stack_table.h"
#include "trace/thread_buffer.h"
#include "trace/trace_file.h"

namespace strata::trace {
namespace {

// kEnding: what is buffered is being written, and nothing more is recorded; else an event could
// come after the totals.
enum class State : uint8_t { kOff, kStarting, kOn, kEnding, kOver };
constexpr uint64_t kMostWait = 1'000'000'000;  // a buffer older than this is written out
constexpr size_t kMostFrames = 256;

constinit std::atomic<State> g_state{State::kOff};
constinit ObjectMap g_objects;
constinit StackTable g_stacks;
constinit ThreadBuffers g_buffers;
constinit TraceFile g_file;
constinit FileHeader g_header;  // of this process; changes only in a forked child
constinit std::atomic<uint64_t> g_sequence{0};
constinit std::atomic<uint32_t> g_threads{0};
constinit std::atomic<uint64_t> g_recorded{0}, g_unknown_frees{0}, g_lost{0};
constinit pthread_key_t g_key{};
// Counts forks on the way from the first process to this one: what a thread's state of an earlier
// one says is not for this one.
constinit std::atomic<uint32_t> g_generation{0};
// In a page that the kernel empties for the child of any fork, a raw clone among them, but not for
// that of vfork, which has our memory and must leave it as it is.
constinit uint32_t* g_same_process = nullptr;

struct ThreadState {
  ThreadBuffer* buffer = nullptr;
  const void* freed_below = nullptr;
  uint32_t thread = 0;
  uint32_t generation = 0;
  bool busy = false;  // within the recorder: what it calls is not recorded
  bool over = false;  // its last destructors run: nothing may stay in a buffer
};
constinit thread_local ThreadState t_state __attribute__((tls_model("initial-exec")));

bool HasStacks() { return (g_header.flags & kHasStacks) != 0; }

// While it lives, the thread's calls are not recorded.
class Busy {
 public:
  explicit Busy(ThreadState& state) : state_(state), entered_(!state.busy) { state.busy = true; }
  ~Busy() {
    if (entered_) state_.busy = false;
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
  bool entered() const { return entered_; }

 private:
  ThreadState& state_;
  bool entered_;
};

void EndEarly() { g_state.store(State::kOver, std::memory_order_relaxed); }

FileHeader MakeHeader(uint64_t flags) {
  FileHeader header;
  header.pid = static_cast<uint64_t>(getpid());
  header.parent = static_cast<uint64_t>(getppid());
  header.start_realtime = ReadClock(CLOCK_REALTIME);
  header.start_monotonic = ReadClock(CLOCK_MONOTONIC);
  header.flags = flags;
  return header;
}

bool IsForkedChild() { return g_same_process != nullptr && *g_same_process == 0; }

void WatchForForks() {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* p = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED || madvise(p, page, MADV_WIPEONFORK) != 0) return;
  g_same_process = static_cast<uint32_t*>(p);
  *g_same_process = 1;
}

// The child of a fork has one thread, the blocks of its parent, and nothing recorded yet.
void BeginInChild() {
  const State state = g_state.load(std::memory_order_relaxed);  // kEnding: by another thread
  if (state != State::kOn && state != State::kEnding) return;
  if (g_same_process != nullptr) *g_same_process = 1;
  g_header = MakeHeader(g_header.flags);
  g_file.ForkedChild(g_header);
  g_buffers.ForgetAll();
  g_objects.Clear();
  g_stacks.Clear();
  if (HasStacks()) ForgetWalkersInChild();
  for (auto* count : {&g_sequence, &g_recorded, &g_unknown_frees, &g_lost})
    count->store(0, std::memory_order_relaxed);
  g_threads.store(0, std::memory_order_relaxed);
  g_generation.fetch_add(1, std::memory_order_relaxed);
  g_state.store(State::kOn, std::memory_order_relaxed);
}

// The lines of /proc/self/maps that hold code. Whole lines, as many as fit.
void WriteMappings(ThreadBuffer& b) {
  ScratchArray<char> maps;
  if (!ReadOwnMaps(maps)) return;
  BlockBuilder block(b.block, sizeof(b.block), BlockKind::kMappings);
  block.Column(column::kText);
  const char* line = maps.data();
  const char* const end = line + maps.size();
  while (line != end) {
    const auto* stop =
        static_cast<const char*>(memchr(line, '\n', static_cast<size_t>(end - line)));
    if (stop == nullptr) break;
    const auto length = static_cast<size_t>(stop + 1 - line);
    if (length > block.room()) break;
    if (memmem(line, length, "r-xp", 4) != nullptr) block.Bytes(line, length);
    line = stop + 1;
  }
  if (!g_file.Append(b.block, block.Finish())) EndEarly();
}

void RefreshStacks(ThreadBuffer& b) {
  RefreshUnwindTables(TablesFor::kAllCode);
  WriteMappings(b);
}

// The buffer is held.
void Flush(ThreadBuffer& b) {
  const ErrnoKeeper keep_errno;
  // A child made by a raw clone, past the fork handlers, must not write to its parent's file.
  if (IsForkedChild()) {
    BeginInChild();
    return;
  }
  if (HasStacks()) {
    g_stacks.WriteNew(b.block, sizeof(b.block),
                      [&](size_t size) { return g_file.Append(b.block, size); });
    if (UnwindTablesStale()) RefreshStacks(b);
  }
  if (b.count == 0) return;
  const size_t size = EncodeEvents(b.events, b.count, b.block, sizeof(b.block));
  if (g_file.Append(b.block, size)) {
    g_recorded.fetch_add(b.count, std::memory_order_relaxed);
  } else {
    EndEarly();
  }
  b.count = 0;
}

void LeaveBuffer(ThreadState& state) {
  ThreadBuffer* const b = state.buffer;
  if (b == nullptr) return;
  state.buffer = nullptr;
  b->hold.Acquire();
  if (g_state.load(std::memory_order_relaxed) == State::kOn) Flush(*b);
  b->hold.Release();
  b->owned.store(false, std::memory_order_release);
}

// The destructor of the thread's key. Others may run after it, and free.
void ThreadEnds(void*) {
  Busy busy(t_state);
  if (t_state.generation == g_generation.load(std::memory_order_relaxed)) LeaveBuffer(t_state);
  t_state.over = true;
}

// The calling thread's buffer; null: no memory.
ThreadBuffer* Buffer(ThreadState& state) {
  const uint32_t generation = g_generation.load(std::memory_order_relaxed);
  if (state.generation != generation) {
    state.buffer = nullptr;
    state.thread = 0;
    state.generation = generation;
  }
  if (state.buffer == nullptr) {
    const ErrnoKeeper keep_errno;
    state.buffer = g_buffers.Own();
    if (state.buffer == nullptr) return nullptr;
    if (state.thread == 0) state.thread = g_threads.fetch_add(1, std::memory_order_relaxed) + 1;
    if (!state.over) pthread_setspecific(g_key, state.buffer);
  }
  return state.buffer;
}

// Takes a number and a time for the event, and puts it into the buffer. 0: it is lost.
uint64_t Record(ThreadState& state, Event& event) {
  ThreadBuffer* const b = Buffer(state);
  if (b == nullptr) {
    g_lost.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  b->hold.Acquire();
  if (g_state.load(std::memory_order_relaxed) != State::kOn) {  // it was waited for: the end came
    b->hold.Release();
    return 0;
  }
  event.thread = state.thread;
  event.sequence = g_sequence.fetch_add(1, std::memory_order_relaxed) + 1;
  const uint64_t now = ReadClock(CLOCK_MONOTONIC);
  event.time = now > g_header.start_monotonic ? now - g_header.start_monotonic : 0;
  const uint32_t generation = state.generation;
  b->events[b->count++] = event;
  if (b->count == ThreadBuffer::kEvents || event.time - b->events[0].time > kMostWait) Flush(*b);
  b->hold.Release();
  if (generation != g_generation.load(std::memory_order_relaxed)) return 0;
  if (state.over) LeaveBuffer(state);
  return event.sequence;
}

// acquire: pairs with the release in StartRecording, for threads that ran before it.
bool Recording() { return g_state.load(std::memory_order_acquire) == State::kOn; }

uint32_t CurrentStack() {
  if (!HasStacks()) return 0;
  uintptr_t frames[kMostFrames];
  return g_stacks.Intern(frames, WalkStack(frames, kMostFrames));
}

void RecordNewBlock(Operation op, void* p, size_t size, size_t alignment, uint64_t old_object) {
  ThreadState& state = t_state;
  Busy busy(state);
  if (!busy.entered()) {  // of a signal's handler that came in between, or of what we call
    g_lost.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  Event event;
  event.operation = op;
  event.size = size;
  event.object = old_object;
  event.stack = CurrentStack();
  if (alignment != 0) event.alignment_log2 = static_cast<uint8_t>(std::countr_zero(alignment));
  if (const uint64_t object = Record(state, event)) {
    const ErrnoKeeper keep_errno;  // its table may need a mapping
    g_objects.Put(p, object);
  }
}

}  // namespace

void StartRecording() {
  State expected = State::kOff;
  if (environ == nullptr ||
      !g_state.compare_exchange_strong(expected, State::kStarting, std::memory_order_acquire))
    return;
  const ErrnoKeeper keep_errno;
  Busy busy(t_state);
  if (RunsForAnother()) {
    DropOwnVariables(environ);
    return EndEarly();
  }
  const char* const path = getenv("STRATATRACE_FILE");
  if (path == nullptr || path[0] == '\0') return EndEarly();
  const char* const stacks = getenv("STRATATRACE_STACKS");
  const char* const parent = getenv("STRATATRACE_PARENT");
  g_header = MakeHeader(stacks != nullptr && stacks[0] == '1' ? kHasStacks : 0);
  const bool is_main = parent != nullptr && strtoull(parent, nullptr, 10) == g_header.parent;
  g_file.Name(path, is_main, g_header);
  if (!g_file.named() || !layers::MakeThreadKey(&g_key, ThreadEnds) ||
      pthread_atfork(nullptr, nullptr, BeginInChild) != 0)
    return EndEarly();
  if (HasStacks()) {
    FindInheritedConfinement();  // else a walk stays on the page that it begins on
    RefreshUnwindTables(TablesFor::kAllCode);
    pthread_atfork(HoldWalkersBeforeFork, ReleaseWalkersAfterFork, nullptr);
  }
  WatchForForks();
  g_state.store(State::kOn, std::memory_order_release);
}

void RecordAllocation(Operation op, void* p, size_t size, size_t alignment) {
  if (p != nullptr && Recording()) RecordNewBlock(op, p, size, alignment, 0);
}

void RecordAllocationOnce(Operation op, void* p, size_t size, size_t alignment) {
  if (!g_objects.Has(p)) RecordAllocation(op, p, size, alignment);
}

void ExpectFreeBelow(void* p) { t_state.freed_below = p; }

void RecordFree(void* p) {
  if (p == nullptr || !Recording()) return;
  ThreadState& state = t_state;
  Busy busy(state);
  if (!busy.entered()) {
    if (g_objects.Take(p) != 0) g_lost.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  Event event;
  event.operation = Operation::kFree;
  event.object = g_objects.Take(p);
  if (event.object != 0) {
    Record(state, event);
  } else if (state.freed_below != p) {
    g_unknown_frees.fetch_add(1, std::memory_order_relaxed);
  }
}

uint64_t BeginRealloc(void* p) { return p != nullptr && Recording() ? g_objects.Take(p) : 0; }

void EndRealloc(uint64_t object, void* old_block, void* p, size_t size) {
  if (!Recording()) return;
  if (p != nullptr) {
    const Operation op = old_block == nullptr ? Operation::kMalloc : Operation::kRealloc;
    RecordNewBlock(op, p, size, 0, object);
  } else if (object != 0 && size != 0) {
    g_objects.Put(old_block, object);  // the call failed, and the block is as it was
  } else if (object != 0) {
    Busy busy(t_state);
    Event event;
    event.operation = Operation::kFree;
    event.object = object;
    if (busy.entered()) Record(t_state, event);
  }
}

STRATA_NO_TSA void FinishRecording() {
  const bool is_child_of_vfork =
      static_cast<uint64_t>(getpid()) != g_header.pid && !IsForkedChild();
  State on = State::kOn;
  if (is_child_of_vfork ||
      !g_state.compare_exchange_strong(on, State::kEnding, std::memory_order_acquire))
    return;
  const auto good = [] { return g_state.load(std::memory_order_relaxed) == State::kEnding; };
  const ErrnoKeeper keep_errno;
  Busy busy(t_state);
  // What a signal's handler that ends the process interrupted keeps what the rest would wait for.
  if (g_stacks.HeldByThisThread() || g_file.IsMadeByThisThread() || RefreshesUnwindTables()) {
    EndEarly();
    return Message()
        .Text("a signal handler that interrupted the recording ends the program; the end of the ")
        .Text("trace is not written")
        .Warn();
  }
  // A thread that was stopped in the middle of an event, or this one in such a handler, holds its
  // buffer for ever: what waits there is lost.
  constexpr int kMostTries = 2000;
  constexpr timespec kPause{0, 100'000};
  ThreadBuffer* last = nullptr;
  for (ThreadBuffer* b = g_buffers.first(); b != nullptr; b = b->next) {
    if (b->hold.HeldByThisThread()) continue;
    int tries = 0;
    while (!b->hold.TryAcquire() && ++tries < kMostTries) raw::Nanosleep(&kPause, nullptr);
    if (tries == kMostTries) continue;
    if (good()) Flush(*b);
    if (last != nullptr) last->hold.Release();
    last = b;  // its memory encodes the end; still held
  }
  if (last == nullptr) return EndEarly();
  if (good()) {
    if (HasStacks()) WriteMappings(*last);
    const Totals totals{g_recorded.load(), g_unknown_frees.load(), g_lost.load()};
    const size_t size = EncodeEnd(totals, last->block, sizeof(last->block));
    if (totals.events != 0) g_file.Append(last->block, size);
  }
  EndEarly();
  last->hold.Release();
}

}  // namespace strata::trace
