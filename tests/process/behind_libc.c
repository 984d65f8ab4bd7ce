// A program for which the library comes behind libc: argv[2] is the library, which it loads. Its
// calls do not pass through the library. Silent if it holds.
#include "case.h"

#include <dlfcn.h>
#include <stdio.h>

enum { kBlocks = 400, kBytes = 60000 };

// Above what a process must have in use before it gets a thread.
static void GrowLarge(void) {
  void* library = dlopen(case_argv[2], RTLD_NOW | RTLD_LOCAL);
  CHECK(library != NULL);
  void* (*allocate)(size_t) = (void* (*)(size_t))dlsym(library, "malloc");
  CHECK(allocate != NULL);
  for (int i = 0; i < kBlocks; ++i) {
    void* block = allocate(kBytes);
    CHECK(block != NULL);
    memset(block, 1, kBytes);
  }
}

static int CountThreads(void) {
  const int file = open("/proc/self/status", O_RDONLY);
  char text[4096];
  const ssize_t n = read(file, text, sizeof text - 1);
  CHECK(n > 0);
  close(file);
  text[n] = 0;
  return atoi(strstr(text, "Threads:") + 8);
}

// libc has each thread follow, and ends the process if one can't.
CASE(identity_is_given_up) {
  GrowLarge();
  for (int i = 0; CountThreads() < 2; ++i) {
    CHECK(i < 500);
    usleep(20000);
  }
  usleep(100000);
  CHECK(setuid(65534) == 0);
}
