// Opens a plugin (argv[1]), closes it, and opens another one (argv[2]) that lands at the same
// address: a walk through it is whole after one round of the background thread's work. A child may
// be forked at any time, and must not find the dynamic linker locked.
#define _GNU_SOURCE  // dl_iterate_phdr
#include "compare.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

typedef size_t (*Leaf)(uintptr_t* out, size_t max);
typedef size_t (*Plugin)(Leaf leaf, uintptr_t* out, size_t max);

static atomic_int stop;

static void Require(int ok, const char* what) {
  if (ok) return;
  dprintf(2, "%s\n", what);
  _exit(1);
}

static void* Open(const char* path, Plugin* plugin) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  Require(library != NULL, "dlopen");
  *plugin = (Plugin)(uintptr_t)dlsym(library, "plugin_walk");
  return library;
}

static uintptr_t BaseOf(void* library) { return ((const struct link_map*)library)->l_addr; }

__attribute__((noinline)) static int IsWhole(Plugin plugin) {
  uintptr_t frames[64];
  const size_t n = plugin(probe_walk, frames, 64);
  void* theirs[64];
  const size_t m = (size_t)backtrace(theirs, 64);
  return n == 13 + m && frames[n - 1] == (uintptr_t)theirs[m - 1];
}

static void* Round(void* unused) {
  while (!stop) probe_round();
  return unused;
}

static int One(struct dl_phdr_info* info, size_t size, void* unused) {
  (void)info, (void)size, (void)unused;
  return 1;
}

static void Fork(void) {
  pthread_t thread;
  Require(pthread_atfork(probe_fork, probe_fork_parent, probe_forked) == 0, "atfork");
  Require(pthread_create(&thread, NULL, Round, NULL) == 0, "thread");
  for (int i = 0; i < 300; ++i) {
    const pid_t child = fork();
    Require(child >= 0, "fork");
    if (child == 0) {
      alarm(10);
      dl_iterate_phdr(One, NULL);
      _exit(0);
    }
    int status = 0;
    Require(waitpid(child, &status, 0) == child && status == 0, "a child hung");
  }
  stop = 1;
  pthread_join(thread, NULL);
}

int main(int argc, char** argv) {
  Require(argc == 3, "two plugins, please");
  PrepareCompare();
  Plugin plugin;
  void* library = NULL;
  // What the rounds map may come to lie where the first one was; in the end all has its place.
  int same = 0;
  for (int i = 0; i < 50 && !same; ++i) {
    library = Open(argv[1], &plugin);
    probe_round();
    Require(IsWhole(plugin), "a walk through the first plugin was cut");
    const uintptr_t base = BaseOf(library);
    dlclose(library);
    library = Open(argv[2], &plugin);
    same = BaseOf(library) == base;
    if (!same) dlclose(library);
  }
  Require(same, "the second plugin never came to lie where the first one was");
  Require(!probe_stale(), "stale, though no walk was made");
  probe_round();
  Require(IsWhole(plugin), "a walk through the second plugin was cut");
  dlclose(library);
  Fork();
  return 0;
}
