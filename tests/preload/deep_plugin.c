// A plugin as PHP's extensions are: loaded deep, it frees what the program allocated.
//   -DFRIEND: the library that the plugin loads by its own RUNPATH
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "deep.h"

#ifdef FRIEND
const char* deep_friend_name(void) { return "friend"; }
#else

const char* deep_owner(void) { return "plugin"; }

static const char* Whose(void) { return deep_owner(); }
static void Take(void* block) { free(block); }
static void* Grow(void* block) { return realloc(block, 50000); }
static char* Give(void) { return strdup("given"); }

// The name has no slash: only the RUNPATH of the library that calls leads to it.
static const char* FriendName(void) {
  void* loaded = dlopen("libdeep_friend.so", RTLD_NOW | RTLD_DEEPBIND);
  if (loaded == NULL) return dlerror();
  const char* (*name)(void) = (const char* (*)(void))dlsym(loaded, "deep_friend_name");
  return name == NULL ? dlerror() : name();
}

const struct Plugin plugin = {Take, Grow, Give, Whose, FriendName};
#endif
