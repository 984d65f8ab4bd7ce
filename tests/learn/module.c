// A shared object whose two functions allocate, for bursts.c. With -DTURNED the other one comes
// first, so that where the one stayed the other passes.
#include <stdlib.h>

__attribute__((noinline)) static void* Wrapper(void) {
  void* volatile p = malloc(500);
  return p;
}

#ifdef TURNED
#define FIRST Staying
#define SECOND Passing
#else
#define FIRST Passing
#define SECOND Staying
#endif

__attribute__((noinline)) void* FIRST(void) {
  void* volatile p = Wrapper();
  return p;
}
__attribute__((noinline)) void* SECOND(void) {
  void* volatile p = Wrapper();
  return p;
}
