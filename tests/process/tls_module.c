// A library that is loaded while threads run: glibc makes each thread's copy of its thread-local
// data on first touch, with malloc, and frees it when the thread ends or the library goes.
#include <stddef.h>
#include <string.h>

static __thread char text[6000] = "fresh";
static __thread size_t touched;

// How often this thread was here before; -1 where its copy is not what it left there.
long Touch(void) {
  if (strcmp(text, touched == 0 ? "fresh" : "touched") != 0 || text[sizeof text - 1] != 0)
    return -1;
  strcpy(text, "touched");
  return (long)touched++;
}
