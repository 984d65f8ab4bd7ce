// Loads a plugin with RTLD_DEEPBIND and hands blocks to and fro.
//   deep_host PLUGIN WAY     WAY: dlopen, dlmopen, namespace; prints what it found
//   deep_host PLUGIN whose   prints whose names the plugin sees first
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deep.h"

enum { kMode = RTLD_NOW | RTLD_DEEPBIND, kBlocks = 1000 };

static void Require(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "deep_host: %s (%s)\n", what, dlerror());
  exit(1);
}

static void HandBlocks(const struct Plugin* plugin) {
  for (size_t i = 0; i < kBlocks; ++i) {
    char* block = malloc(i * 37 % 5000 + 1);
    block[0] = 'x';
    if (i % 2 == 0) block = plugin->grow(block);
    Require(block != NULL && block[0] == 'x', "a block grows");
    if (i % 3 == 0) {
      free(block);
    } else {
      plugin->take(block);
    }
    char* given = plugin->give();
    Require(strcmp(given, "given") == 0, "a block is given");
    given = realloc(given, 3000);
    free(given);
  }
}

#ifdef OWN_MALLOC
static char g_buffer[1 << 20];
static size_t g_used;
void* malloc(size_t size) {
  char* block = g_buffer + g_used;
  g_used += (size + 31) & ~(size_t)15;
  return block;
}
void free(void* block) { (void)block; }
void* calloc(size_t count, size_t size) { return malloc(count * size); }
void* realloc(void* block, size_t size) {
  return block == NULL ? malloc(size) : memmove(malloc(size), block, size);
}
#endif

const char* deep_owner(void) { return "host"; }

int main(int argc, char** argv) {
  Require(argc == 3, "usage");
  const int space = strcmp(argv[2], "namespace") == 0;
  const int open = strcmp(argv[2], "dlopen") == 0 || strcmp(argv[2], "whose") == 0;
  void* loaded =
      open ? dlopen(argv[1], kMode) : dlmopen(space ? LM_ID_NEWLM : LM_ID_BASE, argv[1], kMode);
  Require(loaded != NULL, "the plugin loads");
  const struct Plugin* plugin = dlsym(loaded, "plugin");
  Require(plugin != NULL, "it has its table");
  if (strcmp(argv[2], "whose") == 0) {
    puts(plugin->whose());
    return 0;
  }
  if (space) {
    free(malloc(1000));
    plugin->take(plugin->grow(plugin->give()));  // its libc's own
  } else {
    HandBlocks(plugin);
  }
  printf("%s\n", plugin->friend_name());
  Require(dlclose(loaded) == 0, "it closes");
  errno = 0;
  Require(dlopen("/no/such/library.so", kMode) == NULL, "what is not there does not load");
  const char* error = dlerror();
  Require(error != NULL && strstr(error, "/no/such/library.so") != NULL, "dlerror says so");
  puts("done");
}
