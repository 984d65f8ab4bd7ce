// What the process may still ask of the kernel. A seccomp filter may end it for a system call that
// its author did not foresee, so the library keeps to what such a filter has to allow: what the
// program itself could not run without. Sits in os. One state a process, as filters are: whoever
// learns of a filter says so here (malloc/watched_calls.cpp), and it does not go back.
#pragma once

#include <atomic>
#include <cstdint>

namespace strata {

enum class Confinement : uint8_t {
  kNone,
  // A filter was there when the program began, as in a container or a systemd unit; or nobody has
  // looked yet. What the dynamic linker does is allowed: opening files to read them, mapping
  // memory.
  kInherited,
  // The program has set NO_NEW_PRIVS, as one that means to set a filter does first; or the filter.
  // Unless HasNoFilter, only what any malloc does is sure to be allowed: mmap, munmap and futex.
  kNoNewPrivs,
  kOwnFilter,
};

namespace confinement_internal {
extern std::atomic<Confinement> g_confinement;
}  // namespace confinement_internal

inline Confinement CurrentConfinement() {
  return confinement_internal::g_confinement.load(std::memory_order_relaxed);
}

inline bool MayOpenFiles() { return CurrentConfinement() <= Confinement::kInherited; }
inline bool MayAdvise() { return CurrentConfinement() <= Confinement::kInherited; }  // madvise
// The files that options ask for at the exit.
inline bool MayWriteFiles() { return CurrentConfinement() != Confinement::kOwnFilter; }
// membarrier, process_madvise, sysinfo, prctl, sockets and the like.
inline bool MayCallAnything() { return CurrentConfinement() == Confinement::kNone; }

// What changes nothing and is no part of malloc's work, as mincore: where there is no filter,
// though the program may have set NO_NEW_PRIVS. Looks, the first time. Keeps errno.
bool HasNoFilter();
// Whoever sets a filter says so here first, so that it can't be there unseen after NO_NEW_PRIVS.
void NoteFiltersAreSeen();

// rt_sigprocmask. Where an inherited filter lets the program have threads it allows that, for libc
// sets the mask when it makes one.
bool MaySetSignalMask();

// Looks, the first time, whether there is a filter from before the start. A small program gets by
// without: it is for who wants more than kInherited leaves. Keeps errno.
void FindInheritedConfinement();
// Whether NO_NEW_PRIVS was set before the library looked, which alone confines nothing.
bool InheritedNoNewPrivs();
// The program is about to confine itself, or has; never to less than it is already.
void NoteOwnConfinement(Confinement own);
// The kernel refused.
void UndoOwnConfinement(Confinement before);
// The operator says that an inherited filter allows what this library does.
void TrustInheritedFilter();

// The lines of /proc/PID/status that are of interest; `readable` is false if it can't be read.
struct ProcessStatus {
  bool readable = false;
  char state = '?';
  uint32_t threads = 0;
  uint32_t users[4] = {};   // real, effective, saved, file system
  uint32_t groups[4] = {};  // the same
  uint32_t seccomp = 0;     // 0: no filter
  bool no_new_privs = false;
  uint64_t capabilities = 0;  // permitted
  uint64_t locked_kib = 0;    // by mlock and mlockall
};
ProcessStatus ReadProcessStatus(const char* path);
// How a dead main thread ended, as wait() tells it of a process, by /proc/self/stat; 0 if that
// can't be read.
int ReadExitStatus();
// One line of it, without its end.
void ParseStatusLine(const char* line, ProcessStatus& out);

}  // namespace strata
