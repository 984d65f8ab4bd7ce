// What a program sees when the kernel refuses memory, calls or hugepages. The refusal is arranged
// outside (limits, seccomp, options: see test_hardship.py); each case works under all of them.
#include "case.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>

enum { kMiB = 1 << 20, kMaxBlocks = 1 << 16 };

static char* blocks[kMaxBlocks];

// Takes blocks until one is refused (which must be ENOMEM) or `bound` bytes are held.
static int TakeAll(size_t size, size_t bound) {
  int count = 0;
  for (size_t held = 0; held < bound && count < kMaxBlocks; held += size) {
    errno = 0;
    char* block = (char*)malloc(size);
    if (block == NULL) {
      CHECK_AT(errno == ENOMEM, size);
      break;
    }
    for (size_t at = 0; at < size; at += 4096) block[at] = (char)count;
    block[size - 1] = (char)count;
    blocks[count++] = block;
  }
  return count;
}

static void CheckAndFree(int count, size_t size) {
  for (int i = 0; i < count; ++i) {
    CHECK_AT(blocks[i][size - 1] == (char)i, i);
    free(blocks[i]);
  }
}

static void Ordinary(void) {
  for (int i = 0; i < 20000; ++i) {
    size_t size = (size_t)(i * 7919 % 6000) + 1;
    char* block = (char*)malloc(size);
    CHECK_AT(block != NULL, i);
    block[0] = block[size - 1] = 1;
    block = (char*)realloc(block, size * 2);
    CHECK_AT(block != NULL, i);
    free(block);
  }
}

static void* OrdinaryThread(void* unused) {
  Ordinary();
  return unused;
}

// The allocator works as always.
CASE(ordinary) {
  Ordinary();
  char* large = (char*)malloc(20 * kMiB);
  CHECK(large != NULL);
  memset(large, 1, 20 * kMiB);
  large = (char*)realloc(large, 30 * kMiB);
  CHECK(large != NULL && large[20 * kMiB - 1] == 1);
  free(large);
}

CASE(ordinary_threads) {
  pthread_t ids[4];
  for (int i = 0; i < 4; ++i) CHECK(pthread_create(&ids[i], NULL, OrdinaryThread, NULL) == 0);
  for (int i = 0; i < 4; ++i) CHECK(pthread_join(ids[i], NULL) == 0);
}

// argv[2]: MiB that must be had, argv[3]: MiB at which to stop. Fills up with several sizes in
// turn; what was freed must serve the next size.
CASE(fill_and_recover) {
  CHECK(case_argc == 4);
  size_t least = strtoull(case_argv[2], NULL, 10) * kMiB;
  size_t bound = strtoull(case_argv[3], NULL, 10) * kMiB;
  const size_t sizes[] = {16 * kMiB, 100000, 8000, kMiB + 1, 64 * kMiB, 30000};
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
      int count = TakeAll(sizes[i], bound);
      CHECK_AT((size_t)count * sizes[i] >= least, sizes[i]);
      CheckAndFree(count, sizes[i]);
    }
  }
  Ordinary();
}

// As above, and every other function must refuse in its own way while nothing is left.
// A limit must be in force.
CASE(every_function_refuses) {
  size_t size = 8 * kMiB;
  int count = TakeAll(size, (size_t)1 << 36);
  CHECK_AT(count > 0 && count < 8192, count);
  const size_t asked = 64 * kMiB;
  errno = 0;
  CHECK(malloc(asked) == NULL && errno == ENOMEM);
  errno = 0;
  CHECK(calloc(1, asked) == NULL && errno == ENOMEM);
  errno = 0;
  CHECK(memalign(4096, asked) == NULL && errno == ENOMEM);
  errno = 0;
  CHECK(aligned_alloc(64, asked) == NULL && errno == ENOMEM);
  errno = 0;
  CHECK(valloc(asked) == NULL && errno == ENOMEM);
  errno = 0;
  CHECK(realloc(blocks[0], asked) == NULL && errno == ENOMEM);
  errno = 0;
  CHECK(reallocarray(blocks[0], asked, 1) == NULL && errno == ENOMEM);
  void* untouched = &size;
  CHECK(posix_memalign(&untouched, 64, asked) == ENOMEM && untouched == (void*)&size);
  CheckAndFree(count, size);
  Ordinary();
}

// Small blocks until nothing is left: every class runs dry, the caches too.
CASE(small_blocks_run_dry) {
  struct Node {
    struct Node* next;
  };
  for (size_t size = 16; size <= 16384; size *= 8) {
    struct Node* list = NULL;
    long count = 0;
    for (;;) {
      errno = 0;
      struct Node* node = (struct Node*)malloc(size);
      if (node == NULL) break;
      memset(node, 1, size < 4096 ? size : 4096);
      node->next = list;
      list = node;
      CHECK_AT(++count < 1L << 28, size);
    }
    CHECK_AT(errno == ENOMEM, size);
    CHECK_AT((size_t)count * size > 16u * kMiB, count);
    while (list != NULL) {
      struct Node* node = list;
      list = node->next;
      free(node);
    }
  }
  Ordinary();
}

// A limit set by the program itself, on top of what it has already mapped.
CASE(limit_set_later) {
  void* warm = malloc(kMiB);
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
  limit.rlim_cur = 64 * kMiB;
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
  for (int round = 0; round < 3; ++round) {
    int count = TakeAll(4 * kMiB, 400 * kMiB);
    CheckAndFree(count, 4 * kMiB);
  }
  errno = 0;
  void* huge = malloc((size_t)1 << 45);
  CHECK(huge == NULL && errno == ENOMEM);
  limit.rlim_cur = limit.rlim_max;
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
  int count = TakeAll(16 * kMiB, 320 * kMiB);
  CHECK_AT(count == 20, count);
  CheckAndFree(count, 16 * kMiB);
  Ordinary();
  free(warm);
}

static volatile int g_all_made;
static int g_rounds = 3000;

// Begins when all are there: the first ones would leave no room for another's stack.
static void* FillThread(void* unused) {
  while (!__atomic_load_n(&g_all_made, __ATOMIC_ACQUIRE)) sched_yield();
  uint64_t random = (uint64_t)(uintptr_t)&random | 1;
  for (int i = 0; i < g_rounds; ++i) {
    size_t size = (size_t)1 << (4 + NextRandom(&random) % 21);
    uint64_t* held[16];
    uint64_t tag = NextRandom(&random);
    int count = 0;
    while (count < 16 && (held[count] = (uint64_t*)malloc(size)) != NULL) {
      held[count][0] = held[count][size / 8 - 1] = tag + (uint64_t)count;
      ++count;
    }
    CHECK_AT(count == 16 || errno == ENOMEM, size);
    while (count > 0) {
      --count;
      CHECK_AT(held[count][0] == tag + (uint64_t)count, size);
      CHECK_AT(held[count][size / 8 - 1] == tag + (uint64_t)count, size);
      free(held[count]);
    }
  }
  return unused;
}

// Threads that all run into the limit at once. argv[2]: rounds of each, if not 3000.
CASE(threads_at_the_limit) {
  if (case_argc > 2) g_rounds = atoi(case_argv[2]);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 * 1024);
  pthread_t ids[4];
  for (int i = 0; i < 4; ++i) CHECK(pthread_create(&ids[i], &attributes, FillThread, NULL) == 0);
  __atomic_store_n(&g_all_made, 1, __ATOMIC_RELEASE);
  for (int i = 0; i < 4; ++i) CHECK(pthread_join(ids[i], NULL) == 0);
  Ordinary();
}

CASE(hugepages_disabled) {
  CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0);
  int count = TakeAll(10 * kMiB, 100 * kMiB);
  CHECK_AT(count == 10, count);
  CheckAndFree(count, 10 * kMiB);
  Ordinary();
}

// STRATA_HEAP_LIMIT of less than anything needs.
CASE(nothing_is_allowed) {
  errno = 0;
  CHECK(malloc(kMiB) == NULL && errno == ENOMEM);
  CHECK(malloc(100) == NULL);
  free(NULL);
}
