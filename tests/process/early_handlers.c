// A library whose constructor registers fork handlers that allocate. It does not depend on the
// preloaded allocator, so ld.so runs this constructor before the allocator's, and the handlers run
// while the allocator's own fork handlers hold its locks. Linked into fork_early.c.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { kBlocks = 600 };

int early_handler_runs;

// More than any cache in front of the locks has, of small and large sizes.
static void Allocate(void) {
  static char* blocks[kBlocks];
  for (int i = 0; i < kBlocks; ++i) {
    size_t size = i % 20 == 19 ? (size_t)i * 2000 : 16 + (size_t)(i % 20) * 150;
    blocks[i] = (char*)malloc(size);
    if (blocks[i] == NULL) abort();
    memset(blocks[i], i, size < 64 ? size : 64);
  }
  for (int i = 0; i < kBlocks; ++i) {
    if (blocks[i][0] != (char)i) abort();
    free(blocks[i]);
  }
  ++early_handler_runs;
}

__attribute__((constructor)) static void Register(void) {
  if (pthread_atfork(Allocate, Allocate, Allocate) != 0) abort();
}
