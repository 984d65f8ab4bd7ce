// What glibc promises about malloc beyond the single call: refusals by every function at once,
// errno where even unmapping fails, functions that report while others allocate, and the users of
// malloc within libc. All of it holds on glibc 2.36.
#include "case.h"

#include <limits.h>
#include <obstack.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>

#define obstack_chunk_alloc malloc
#define obstack_chunk_free free

enum { kMiB = 1 << 20 };

static void CheckRefused(size_t size) {
  char* kept = (char*)malloc(64);
  CHECK(kept != NULL);
  Paint(kept, 64, size);
  void* untouched = &size;
  const size_t alignments[] = {16, 4096, kMiB};
  errno = 0;
  CHECK_AT(malloc(Hide(size)) == NULL && errno == ENOMEM, size);
  errno = 0;
  CHECK_AT(calloc(Hide(size), 1) == NULL && errno == ENOMEM, size);
  errno = 0;
  CHECK_AT(realloc(NULL, Hide(size)) == NULL && errno == ENOMEM, size);
  errno = 0;
  CHECK_AT(realloc(kept, Hide(size)) == NULL && errno == ENOMEM, size);
  errno = 0;
  CHECK_AT(reallocarray(kept, 1, Hide(size)) == NULL && errno == ENOMEM, size);
  errno = 0;
  CHECK_AT(valloc(Hide(size)) == NULL && errno == ENOMEM, size);
  errno = 0;
  CHECK_AT(pvalloc(Hide(size)) == NULL && errno == ENOMEM, size);
  for (int i = 0; i < 3; ++i) {
    errno = 0;
    CHECK_AT(memalign(alignments[i], Hide(size)) == NULL && errno == ENOMEM, size);
    errno = 0;
    CHECK_AT(aligned_alloc(alignments[i], Hide(size)) == NULL && errno == ENOMEM, size);
    CHECK_AT(posix_memalign(&untouched, alignments[i], Hide(size)) == ENOMEM, size);
    CHECK_AT(untouched == (void*)&size, size);
  }
  CHECK_AT(IsPainted(kept, 64, size), size);
  free(kept);
}

// No object may be larger than PTRDIFF_MAX, and no function may lose the excess on its way.
CASE(nothing_beyond_ptrdiff_max) {
  for (size_t below = 0; below < 5000; below += below < 40 ? 1 : 101) {
    CheckRefused(SIZE_MAX - below);
    CheckRefused((size_t)PTRDIFF_MAX + 1 + below);
    CheckRefused(SIZE_MAX / 4 * 3 - below);
  }
}

// Products that wrap round to a small number, by every pair of powers of two.
CASE(products_that_wrap) {
  char* kept = (char*)malloc(100);
  Paint(kept, 100, 3);
  for (int bits = 1; bits < 64; ++bits) {
    for (size_t more = 0; more < 2; ++more) {
      const size_t count = ((size_t)1 << bits) + more;
      const size_t size = (size_t)1 << (64 - bits);
      errno = 0;
      CHECK_AT(calloc(Hide(count), Hide(size)) == NULL && errno == ENOMEM, bits);
      errno = 0;
      CHECK_AT(calloc(Hide(size), Hide(count)) == NULL && errno == ENOMEM, bits);
      errno = 0;
      CHECK_AT(reallocarray(kept, Hide(count), Hide(size)) == NULL && errno == ENOMEM, bits);
      errno = 0;
      CHECK_AT(reallocarray(kept, Hide(size), Hide(count)) == NULL && errno == ENOMEM, bits);
    }
  }
  CHECK(IsPainted(kept, 100, 3));
  free(kept);
}

// A process at its limit of mappings: to unmap a part of one fails there. free keeps errno all the
// same, and what is freed can be had again.
CASE(free_keeps_errno_without_mappings) {
  enum { kBlocks = 8 };
  char* blocks[kBlocks];
  const size_t sizes[] = {100, 5000, 40000, 200000, kMiB, 5 * kMiB, 20 * kMiB, 70 * kMiB};
  for (int i = 0; i < kBlocks; ++i) {
    blocks[i] = (char*)malloc(sizes[i]);
    CHECK(blocks[i] != NULL);
    blocks[i][0] = blocks[i][sizes[i] - 1] = 1;
  }
  const size_t room = (size_t)1 << 30;
  char* area =
      (char*)mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(area != MAP_FAILED);
  size_t split = 0;
  while (split < room && mprotect(area + split, 4096, PROT_READ) == 0) split += 8192;
  CHECK(split < room && errno == ENOMEM);
  for (int i = 0; i < kBlocks; ++i) {
    errno = EXDEV;
    free(blocks[i]);
    CHECK_AT(errno == EXDEV, sizes[i]);
  }
  char* again = (char*)malloc(5000);
  CHECK(again != NULL);
  errno = EXDEV;
  free(again);
  CHECK(errno == EXDEV);
  CHECK(munmap(area, room) == 0);
}

static atomic_int stop;

static void* Busy(void* number) {
  uint64_t random = (uint64_t)(uintptr_t)number;
  while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
    const size_t size = 1 + NextRandom(&random) % (NextRandom(&random) % 8 == 0 ? 300000 : 3000);
    char* block = (char*)malloc(size);
    CHECK_AT(block != NULL, size);
    block[0] = block[size - 1] = 1;
    free(block);
  }
  return NULL;
}

// Each report is whole and the figures are possible, whatever the other threads do meanwhile.
CASE(reports_beside_busy_threads) {
  pthread_t ids[4];
  for (uintptr_t i = 0; i < 4; ++i) {
    CHECK(pthread_create(&ids[i], NULL, Busy, (void*)(i + 1)) == 0);
  }
  char* held = (char*)malloc(30 * kMiB);
  CHECK(held != NULL);
  memset(held, 1, 30 * kMiB);
  for (int round = 0; round < 60; ++round) {
    char* text = NULL;
    size_t length = 0;
    FILE* stream = open_memstream(&text, &length);
    CHECK(stream != NULL && malloc_info(0, stream) == 0 && fclose(stream) == 0);
    CHECK(strncmp(text, "<malloc", 7) == 0);
    CHECK(length > 10 && strcmp(text + length - 10, "</malloc>\n") == 0);
    free(text);
    const struct mallinfo2 info = mallinfo2();
    CHECK_AT(info.uordblks + info.hblkhd >= 30u * kMiB, info.uordblks);
    CHECK_AT(info.uordblks + info.hblkhd < 300u * kMiB, info.uordblks);
    if (round % 10 == 0) malloc_trim(0);
  }
  atomic_store(&stop, 1);
  for (int i = 0; i < 4; ++i) CHECK(pthread_join(ids[i], NULL) == 0);
  free(held);
}

// calloc gives zeroes also where the program asked for painted blocks.
CASE(calloc_is_zero_under_perturb) {
  CHECK(mallopt(M_PERTURB, 0xA5) == 1);
  for (size_t size = 1; size < 4 * kMiB; size = size * 3 / 2 + 1) {
    for (int i = 0; i < 8; ++i) {
      unsigned char* block = (unsigned char*)malloc(size);
      CHECK_AT(block != NULL, size);
      memset(block, 0xFF, size);
      free(block);
      block = (unsigned char*)calloc(size, 1);
      CHECK_AT(block != NULL && block[0] == 0 && memcmp(block, block + 1, size - 1) == 0, size);
      free(block);
    }
  }
}

// Obstacks take their chunks from malloc and give them back in any order of the program's.
CASE(obstacks) {
  struct obstack stack;
  obstack_init(&stack);
  uint64_t random = 1;
  for (int round = 0; round < 200; ++round) {
    char* first = NULL;
    for (int i = 0; i < 50; ++i) {
      const int size = 1 + (int)(NextRandom(&random) % 6000);
      char* object = (char*)obstack_alloc(&stack, size);
      CHECK_AT(object != NULL, size);
      Paint(object, (size_t)size, (uint64_t)round);
      CHECK_AT(IsPainted(object, (size_t)size, (uint64_t)round), size);
      if (first == NULL) first = object;
      obstack_grow(&stack, "grows", 5);
    }
    obstack_finish(&stack);
    if (round % 2 == 0) obstack_free(&stack, first);
  }
  CHECK(obstack_memory_used(&stack) < 200 * kMiB);
  obstack_free(&stack, NULL);
}

// A string that grows by a byte at a time stays where it lies while it fits.
CASE(resizes_where_no_smaller_block_is) {
  for (size_t size = 1; size <= 300; ++size) {
    char* block = (char*)malloc(Hide(size));
    const size_t held = malloc_usable_size(block);
    for (size_t less = held; less != 0; --less) {
      void* fresh = malloc(Hide(less));
      const size_t as_held = malloc_usable_size(fresh) == held;
      free(fresh);
      const uintptr_t place = (uintptr_t)block;
      block = (char*)realloc(block, Hide(less));
      if (!as_held) break;
      CHECK_AT((uintptr_t)block == place, less);
    }
    free(block);
  }
}
