// Several threads open, call and close plugins (argv[1], argv[2]: builds with other frames) while
// others walk and one refreshes. Nothing may crash; a walk through a plugin just opened is whole
// once the tables were refreshed, and the tables do not pile up.
#include "compare.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

typedef size_t (*Leaf)(uintptr_t* out, size_t max);
typedef size_t (*Plugin)(Leaf leaf, uintptr_t* out, size_t max);

enum { kOpeners = 3, kRounds = 150 };
static char** paths;
static atomic_int stop;
static atomic_long whole, cut;

static void Require(int ok, const char* what) {
  if (ok) return;
  dprintf(2, "%s\n", what);
  _exit(1);
}

// Frames in [walk, ours): the plugin's twelve and plugin_walk, if nothing was cut.
static void* Open(void* number) {
  for (int i = 0; i < kRounds; ++i) {
    void* library = dlopen(paths[(i + (int)(intptr_t)number) % 2], RTLD_NOW | RTLD_LOCAL);
    Require(library != NULL, "dlopen");
    const Plugin plugin = (Plugin)(uintptr_t)dlsym(library, "plugin_walk");
    uintptr_t frames[64];
    if (i % 10 == 0) {
      Require(probe_refresh(), "refresh");
      const size_t n = plugin(probe_walk, frames, 64);
      void* theirs[64];
      const size_t m = (size_t)backtrace(theirs, 64);
      // The plugin's frames on top of this function's, which are the last m.
      Require(n == 13 + m && frames[n - 1] == (uintptr_t)theirs[m - 1], "a walk was cut");
    }
    const size_t n = plugin(probe_walk, frames, 64);
    atomic_fetch_add(n >= 15 ? &whole : &cut, 1);
    dlclose(library);
  }
  return NULL;
}

static void* Walk(void* unused) {
  uintptr_t frames[64];
  while (!stop) Require(probe_walk(frames, 64) >= 2, "walk");
  return unused;
}

static void* Refresh(void* unused) {
  while (!stop) {
    if (probe_stale()) Require(probe_refresh(), "refresh");
    usleep(500);
  }
  return unused;
}

int main(int argc, char** argv) {
  Require(argc == 3, "two plugins, please");
  paths = argv + 1;
  PrepareCompare();
  const size_t before = probe_bytes();
  pthread_t openers[kOpeners];
  pthread_t others[3];
  for (int i = 0; i < 3; ++i) {
    Require(pthread_create(&others[i], NULL, i < 2 ? Walk : Refresh, NULL) == 0, "thread");
  }
  for (int i = 0; i < kOpeners; ++i) {
    Require(pthread_create(&openers[i], NULL, Open, (void*)(intptr_t)i) == 0, "thread");
  }
  for (int i = 0; i < kOpeners; ++i) pthread_join(openers[i], NULL);
  stop = 1;
  for (int i = 0; i < 3; ++i) pthread_join(others[i], NULL);
  Require(probe_refresh() && probe_refresh(), "refresh");
  // The records of replaced indexes keep their caches: 64 KiB each.
  Require(probe_bytes() <= before + (512 << 10), "tables pile up");
  Require(whole > 0, "no walk was whole");
  return 0;
}
