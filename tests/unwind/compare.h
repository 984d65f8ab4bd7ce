// Compares the walk with glibc's backtrace where it stands; for C and C++ helper programs. A
// difference is printed frame by frame and ends the program with status 1.
#pragma once

#include <execinfo.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif
size_t probe_walk(uintptr_t* out, size_t max);
int probe_stale(void);
int probe_refresh(void);
void probe_start(void);
void probe_round(void);
void probe_fork(void);
void probe_fork_parent(void);
size_t probe_bytes(void);
void probe_forked(void);
#ifdef __cplusplus
}
#endif

enum { kMaxFrames = 512 };

static int compared;  // walks, so that a program can tell that it did any

__attribute__((noinline, unused)) static void PrepareCompare(void) {
  void* frames[4];
  backtrace(frames, 4);  // loads libgcc
  probe_start();
  if (getenv("PROBE_UNPREPARED") != NULL) return;
  if (!probe_refresh()) {
    fprintf(stderr, "no unwind tables\n");
    exit(1);
  }
}

// The frames of the caller's callers must be the same; the first is that of this function, in which
// the two calls return to different places. `least`: that many frames at least.
__attribute__((noinline, unused)) static void Compare(size_t least) {
  uintptr_t ours[kMaxFrames];
  void* theirs[kMaxFrames];
  const size_t n = probe_walk(ours, kMaxFrames);
  const size_t m = (size_t)backtrace(theirs, kMaxFrames);
  int same = n == m && n >= least;
  for (size_t i = 1; i < n && same; ++i) same = ours[i] == (uintptr_t)theirs[i];
  ++compared;
  if (same) return;
  dprintf(2, "walks differ: %zu frames, backtrace %zu, at least %zu wanted\n", n, m, least);
  for (size_t i = 0; i < n || i < m; ++i) {
    dprintf(2, "%3zu %lx %lx\n", i, i < n ? ours[i] : 0, i < m ? (unsigned long)theirs[i] : 0);
  }
  _exit(1);
}
