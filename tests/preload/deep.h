// What deep_host.c and its two libraries know of each other.
#ifndef STRATA_TESTS_PRELOAD_DEEP_H_
#define STRATA_TESTS_PRELOAD_DEEP_H_

// In the plugin, which is loaded with RTLD_DEEPBIND.
struct Plugin {
  void (*take)(void* block);         // frees it
  void* (*grow)(void* block);        // by realloc
  char* (*give)(void);               // a block of its own, from strdup
  const char* (*whose)(void);        // who owns the name that both define
  const char* (*friend_name)(void);  // what a dlopen from inside the plugin finds
};

#endif
