// The process's one set of unwind tables, and the walks of its threads over it. The only state
// below src/malloc that is one a process: so are its mappings and its stacks. See stack_walk.h.
#include "profile/stack_walk.h"

#include <sys/auxv.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>

#include "base/errno_keeper.h"
#include "os/confinement.h"
#include "os/side_stack.h"
#include "profile/mappings.h"
#include "profile/python/python_frames.h"
#include "profile/scratch_array.h"
#include "profile/script_frames.h"
#include "profile/unwind/any_code.h"
#include "profile/unwind/frame_walker.h"
#include "profile/unwind/loaded_code.h"
#include "profile/unwind/loaded_files.h"
#include "profile/unwind/unwind_index.h"

// What stands for a stack that can't be known yet; its name says so in profiles.
extern "C" STRATA_NOINLINE void strata_allocated_before_stacks_were_known() {}

// Given by the linker to whatever file this is linked into.
extern "C" {
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char etext[] __attribute__((visibility("hidden")));
}

namespace strata {
namespace {

void* MapTable(size_t bytes) {
  const ErrnoKeeper keep_errno;
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

void UnmapTable(void* p, size_t bytes) {
  const ErrnoKeeper keep_errno;
  munmap(p, bytes);
}

constinit UnwindTables g_tables{TableMemory{MapTable, UnmapTable}};
constinit ScriptFrames g_script_frames{MapTable};

// Walks that met code in no table, since the last refresh, and how many make the tables stale: one,
// but twice as many each time a refresh finds nothing, as with code that a compiler makes at run
// time.
constinit std::atomic<uint32_t> g_unknown{0};
constinit std::atomic<uint32_t> g_unknown_until_stale{1};
constexpr uint32_t kMostUnknown = 1 << 16;

// How often the tables count as fresh after a refresh that failed, and how often is left: twice as
// often after each failure, as each reads all maps and may copy much before it finds no memory.
constinit std::atomic<uint32_t> g_pause{0};
constinit std::atomic<uint32_t> g_pause_left{0};
constexpr uint32_t kLongestPause = 256;  // some minutes of the background thread

constinit LoadedFiles g_files;
// Files changed, and no refresh has worked since; the background thread's.
constinit bool g_files_changed = false;

constinit thread_local KnownPages t_known __attribute__((tls_model("initial-exec")));

// Where libstrata's own code lies, to leave it out. Linked into the program from the archive it
// can't be told from the program's, and stays in. getauxval reads what libc keeps: no lock.
CodeRange SelfRange() {
  const auto begin = reinterpret_cast<uintptr_t>(__ehdr_start);
  const auto end = reinterpret_cast<uintptr_t>(etext);
  const uintptr_t program_headers = getauxval(AT_PHDR);
  return {begin, program_headers - begin < end - begin ? begin : end};
}

void NoteUnknownCode() {
  // Stops counting in time: no shared line is written for ever by a program full of such code.
  if (g_unknown.load(std::memory_order_relaxed) < kMostUnknown)
    g_unknown.fetch_add(1, std::memory_order_relaxed);
}

// A refresh has failed lately; each call is one nearer to the next try.
bool Pauses() {
  uint32_t left = g_pause_left.load(std::memory_order_relaxed);
  while (left != 0 &&
         !g_pause_left.compare_exchange_weak(left, left - 1, std::memory_order_relaxed)) {
  }
  return left != 0;
}

// Threads that fail at once may lose one doubling.
void NoteRefresh(bool ok) {
  const uint32_t pause = g_pause.load(std::memory_order_relaxed);
  const uint32_t next = ok ? 0 : std::clamp(pause * 2, 1u, kLongestPause);
  g_pause.store(next, std::memory_order_relaxed);
  g_pause_left.store(next, std::memory_order_relaxed);
}

bool Stale() {
  return !g_tables.prepared() || g_tables.wants_table() ||
         g_unknown.load(std::memory_order_relaxed) >=
             g_unknown_until_stale.load(std::memory_order_relaxed);
}

bool NeedsLoadedCode(WalkEnd end) {
  return end == WalkEnd::kUnknownCode || end == WalkEnd::kNoTable;
}

// Goes on where the tables end, if the dynamic linker knows the code there; false: it does not.
// `index`: the pinned one, or null.
STRATA_NOINLINE bool WalkLoadedCode(const UnwindIndex* index, WalkPosition& walk,
                                    StackReader& stack, uintptr_t* out, size_t max,
                                    uintptr_t* places) {
  bool known = false;
  OnSideStack([&] {
    FrameIndex loaded;
    known = FindFrameIndex(walk.lookup, &loaded);
    if (known) FindInheritedConfinement();  // else a walk stays on the page that it begins on
    const AnyCode rules(index);
    const WalkEnd end = WalkFrames(rules, walk, SelfRange(), stack, out, max, places);
    if (end == WalkEnd::kUnknownCode || rules.met_new_file()) NoteUnknownCode();
  });
  return known;
}

// For a walk that found nothing beyond where it began, which is in out[0] if `count` is 1: by frame
// pointers, before there are tables, else only what stands for the stack. `known`: the linker knows
// the code, so the walk had its rules. `caller`: of the walk.
STRATA_NOINLINE size_t WalkWithoutTables(const WalkStart& start, uintptr_t caller, bool known,
                                         StackReader& stack, uintptr_t* out, size_t max,
                                         size_t count) {
  const bool prepared = g_tables.prepared();
  if (!prepared && (count == 0 || !known))
    count += WalkFramePointers(start.at, SelfRange(), stack, out + count, max - count);
  if (count != 0) return count;
  out[0] = prepared ? caller
                    : reinterpret_cast<uintptr_t>(strata_allocated_before_stacks_were_known) + 1;
  return 1;
}

STRATA_READS_STACK size_t WalkFrom(const WalkStart& start, uintptr_t caller, uintptr_t* out,
                                   size_t max, uintptr_t* places) {
  // Of a call the return address is sure to be readable; what lies above it may be no stack.
  StackReader stack(t_known, start.at.sp - (start.returns ? sizeof(uintptr_t) : 0));
  WalkPosition walk(start.at);
  if (start.returns) FindFirst(walk, SelfRange(), out, places);
  WalkEnd end = WalkEnd::kUnknownCode;
  bool known = false;
  {
    const UnwindTables::Pin pin(g_tables);
    if (STRATA_LIKELY(pin.index() != nullptr))
      end = WalkFrames(*pin.index(), walk, SelfRange(), stack, out, max, places);
    if (STRATA_UNLIKELY(NeedsLoadedCode(end)))
      known = WalkLoadedCode(pin.index(), walk, stack, out, max, places);
  }
  size_t count = walk.count;
  if (STRATA_UNLIKELY(count <= (start.returns ? 1 : 0))) {
    count = WalkWithoutTables(start, caller, known, stack, out, max, count);
    for (size_t i = walk.count; places != nullptr && i < count; ++i) places[i] = 0;
  }
  t_known = stack.known();
  return count;
}

}  // namespace

STRATA_NOINLINE STRATA_READS_STACK size_t WalkStack(uintptr_t* out, size_t max, uintptr_t* places,
                                                    const WalkStart* from) {
  if (max == 0) return 0;
  const WalkStart start = from != nullptr ? *from : StartHere();
  return WalkFrom(start, reinterpret_cast<uintptr_t>(__builtin_return_address(0)), out, max,
                  places);
}

STRATA_NOINLINE STRATA_READS_STACK size_t WalkSampledStack(ScriptLines lines, uintptr_t* out,
                                                           size_t max, const WalkStart* from) {
  const WalkStart start = from != nullptr ? *from : StartHere();
  const auto caller = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  if (STRATA_LIKELY(!RunsPython())) return WalkFrom(start, caller, out, max, nullptr);
  size_t depth = 0;
  OnSideStack([&] {
    // Several of the interpreter's own frames make one of Python's.
    constexpr size_t kDeepest = 512;
    uintptr_t frames[kDeepest];
    uintptr_t places[kDeepest];
    const size_t n = WalkFrom(start, caller, frames, kDeepest, places);
    depth = WithPythonFrames(frames, places, n, lines, g_script_frames, out, max);
  });
  return depth;
}

const ScriptFrames& TheScriptFrames() { return g_script_frames; }

STRATA_NOINLINE STRATA_READS_STACK bool InSignalHandler() {
  const FrameRegisters here = CurrentRegisters();
  WalkPosition walk(here);
  OnSideStack([&] {
    constexpr size_t kDeepest = 2048;
    uintptr_t frames[kDeepest];
    FindInheritedConfinement();
    StackReader stack(KnownPages(), here.sp);
    const UnwindTables::Pin pin(g_tables);
    WalkFrames(AnyCode(pin.index()), walk, SelfRange(), stack, frames, kDeepest);
  });
  return walk.left_handler;
}

bool UnwindTablesStale() { return Stale() && !Pauses(); }

bool RefreshUnwindTables(TablesFor which) {
  const ErrnoKeeper keep_errno;
  const uint32_t published = g_tables.published();
  OwnMemory memory;
  const auto read_maps = [](ScratchArray<char>& maps) {
    return ReadOwnMaps(maps) && maps.size() != 0;
  };
  if (!CanFindLoadedCode()) which = TablesFor::kAllCode;  // no walk can do without
  const bool ok = g_tables.Refresh(read_maps, memory, which);
  NoteRefresh(ok);
  if (!ok) return false;
  const uint32_t until = g_unknown_until_stale.load(std::memory_order_relaxed);
  const bool in_vain =
      g_tables.published() == published && g_unknown.load(std::memory_order_relaxed) != 0;
  g_unknown_until_stale.store(in_vain ? std::min(until * 2, kMostUnknown) : 1,
                              std::memory_order_relaxed);
  g_unknown.store(0, std::memory_order_relaxed);
  return true;
}

bool RefreshesUnwindTables() { return g_tables.Refreshes(); }

void KeepUnwindTables() {
  g_files_changed |= g_files.Changed();
  if ((g_files_changed || Stale()) && !Pauses() && RefreshUnwindTables()) g_files_changed = false;
}

uint32_t UnwindTablesPublished() { return g_tables.published(); }

size_t UnwindTableBytes() { return g_tables.bytes() + g_script_frames.bytes(); }

void HoldWalkersBeforeFork() { g_files.BeforeFork(); }
void ReleaseWalkersAfterFork() { g_files.AfterFork(); }
void ForgetWalkersInChild() {
  g_files.AfterForkInChild();
  g_tables.ForgetOthersInChild();
}

}  // namespace strata
