// The stack of the calling thread, for the sampler: three functions over the one set of unwind
// tables of the process (profile/unwind). Sits in profile.
//
// Inside malloc a walk must not lock, allocate or ask the dynamic linker, as glibc's backtrace and
// libunwind do, and Debian's builds have no frame pointers. So RefreshUnwindTables makes tables of
// .eh_frame of the files that walks meet, off the path (it copies through process_vm_readv, so that
// a file unmapped meanwhile is no fault), and a walk goes by them, safe wherever an allocation may
// happen. A wrong table leads to a short or wrong stack at worst, but for one case that can fault:
// a fiber's stack is unmapped, a smaller one is mapped at the same place, and the thread walks
// nowhere in between. Frames end a walk whose CFA is in a register other than sp and bp, and those
// above 256 KiB without a frame pointer. bench/programs/stackwalk.cpp times it beside libunwind and
// backtrace.
#pragma once

#include <cstddef>
#include <cstdint>

#include "profile/unwind/tables_for.h"

namespace strata {

class ScriptFrames;
struct WalkStart;
enum class ScriptLines : uint8_t;

// Return addresses of the calling thread, innermost first, without the frames inside libstrata
// itself. Takes no lock, allocates nothing, calls no dl*, async-signal-safe. Needs tables from
// RefreshUnwindTables; without them falls back to what it can prove (frame pointers, else the
// caller alone). `places`, if not null: where on the stack each lies, 0 where that is not known.
// `from`: a frame to begin at, if known.
size_t WalkStack(uintptr_t* out, size_t max, uintptr_t* places = nullptr,
                 const WalkStart* from = nullptr);

// The same for a sample: in a process that runs Python, with Python's own frames, which
// TheScriptFrames names.
size_t WalkSampledStack(ScriptLines lines, uintptr_t* out, size_t max,
                        const WalkStart* from = nullptr);
const ScriptFrames& TheScriptFrames();

// Whether the calling thread is in a signal handler, as far as its stack can be walked. Deep: for a
// caller that is about to wait.
bool InSignalHandler();

// Whether a walk met code in no file known (dlopen) or walks met a file often that has no table, or
// nothing was ever prepared. After a refresh that failed, not the next time that one asks; after
// another, not the next two times, and so on.
bool UnwindTablesStale();

// Makes the tables fit what is mapped now. Off the path: for the background thread, or a thread
// that calls the profile API. False: no memory, or no /proc.
bool RefreshUnwindTables(TablesFor which = TablesFor::kCodeMet);
// Whether this thread is in the midst of that: in a signal handler.
bool RefreshesUnwindTables();

// One round of the background thread: makes the tables fit when a walk was stale, or when files
// were loaded or unloaded; the dynamic linker's lock is taken for a moment.
void KeepUnwindTables();

// How often they were made anew: each time the code that is mapped had changed.
uint32_t UnwindTablesPublished();

// Memory that the tables and the names of script frames take, all of it resident: part of the
// metadata.
size_t UnwindTableBytes();

// Around a fork, before any lock is taken and after all are released. In the child no other thread
// walks or refreshes any more.
void HoldWalkersBeforeFork();
void ReleaseWalkersAfterFork();
void ForgetWalkersInChild();

}  // namespace strata
