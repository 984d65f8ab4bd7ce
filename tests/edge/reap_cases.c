// The C interface of reaps, as a program that links or preloads the library sees it. Caps are in
// reap_cap_cases.c, misuse in reap_misuse_cases.c.
#include <pthread.h>
#include <sched.h>

#include "case.h"
#include "strata/reap.h"

CASE(allocates_frees_and_clears) {
  strata_reap* reap = strata_reap_create(NULL);
  CHECK(reap != NULL);
  char* p[1000];
  for (size_t i = 0; i < 1000; ++i) {
    p[i] = strata_reap_malloc(reap, i);
    CHECK(p[i] != NULL && (uintptr_t)p[i] % 16 == 0);
    memset(p[i], (int)i, i);
  }
  CHECK(strata_reap_bytes(reap) >= 1000 * 999 / 2);
  CHECK(strata_reap_held(reap) >= strata_reap_bytes(reap));
  for (size_t i = 0; i < 1000; ++i) {
    for (size_t k = 0; k < i; ++k) CHECK(p[i][k] == (char)i);
    strata_reap_free(reap, p[i]);
  }
  CHECK(strata_reap_bytes(reap) == 0);
  strata_reap_free(reap, NULL);
  for (size_t i = 0; i < 1000; ++i) CHECK(strata_reap_malloc(reap, 100) != NULL);
  strata_reap_clear(reap);
  CHECK(strata_reap_bytes(reap) == 0);
  char* zeros = strata_reap_calloc(reap, 10, 100);
  for (size_t i = 0; i < 1000; ++i) CHECK(zeros[i] == 0);
  strata_reap_destroy(reap);
  strata_reap_destroy(NULL);
}

CASE(reallocates) {
  strata_reap* reap = strata_reap_create(NULL);
  char* p = strata_reap_realloc(reap, NULL, 10);
  memcpy(p, "123456789", 10);
  for (size_t n = 10; n < 3000000; n = n * 3 / 2) {
    p = strata_reap_realloc(reap, p, n);
    CHECK(p != NULL && memcmp(p, "123456789", 10) == 0);
  }
  for (size_t n = 3000000; n > 10; n /= 3) {
    p = strata_reap_realloc(reap, p, n);
    CHECK(p != NULL && memcmp(p, "123456789", 10) == 0);
  }
  CHECK(strata_reap_realloc(reap, p, 0) == NULL);
  CHECK(strata_reap_bytes(reap) == 0);
  strata_reap_destroy(reap);
}

// As malloc's realloc: in place or by page tables, with some to spare, so that a buffer that grows
// step by step moves a few dozen times and not at each step.
CASE(grows_a_large_block_in_few_moves) {
  for (int shared = 0; shared < 2; ++shared) {
    strata_reap* reap = shared ? strata_reap_create_shared(NULL) : strata_reap_create(NULL);
    char* p = strata_reap_malloc(reap, 4096);
    int moves = 0;
    for (size_t n = 8192; n <= 16 << 20; n += 4096) {
      p[n - 4097] = (char)(n >> 12);
      char* grown = strata_reap_realloc(reap, p, n);
      CHECK_AT(grown != NULL && strata_reap_size(reap, grown) >= n, n);
      CHECK_AT(strata_reap_find(grown) == reap, n);
      moves += grown != p;
      p = grown;
    }
    for (size_t n = 8192; n <= 16 << 20; n += 4096) CHECK_AT(p[n - 4097] == (char)(n >> 12), n);
    CHECK_AT(moves < 60, moves);
    CHECK(strata_reap_held(reap) < (size_t)17 << 20);
    p = strata_reap_realloc(reap, p, 1 << 20);
    CHECK(p != NULL && p[4095] == 2 && strata_reap_held(reap) < (size_t)2 << 20);
    strata_reap_free(reap, p);
    CHECK(strata_reap_bytes(reap) == 0);
    strata_reap_destroy(reap);
  }
}

// What is moved counts once against the cap, and stays where it was when the cap refuses.
CASE(grows_a_large_block_up_to_the_cap) {
  strata_reap* reap = strata_reap_create(NULL);
  char* p = strata_reap_malloc(reap, 1000000);
  p[999999] = 7;
  strata_reap_set_cap(reap, 1200000, NULL, NULL);
  p = strata_reap_realloc(reap, p, 1100000);
  CHECK(p != NULL && p[999999] == 7);
  errno = 0;
  CHECK(strata_reap_realloc(reap, p, 1300000) == NULL && errno == ENOMEM);
  CHECK(p[999999] == 7 && strata_reap_size(reap, p) >= 1100000);
  CHECK(strata_reap_find(p) == reap);
  strata_reap_destroy(reap);
}

CASE(aligns) {
  strata_reap* reap = strata_reap_create(NULL);
  for (size_t align = 1; align <= (1 << 20); align *= 2) {
    for (size_t size = 1; size < 2000000; size = size * 7 + 3) {
      char* p = strata_reap_memalign(reap, align, size);
      CHECK(p != NULL && (uintptr_t)p % align == 0);
      memset(p, 1, size);
      if (size % 2 == 0) strata_reap_free(reap, p);
    }
  }
  CHECK(strata_reap_memalign(reap, 24, 8) == NULL && errno == EINVAL);
  CHECK(strata_reap_memalign(reap, 0, 8) == NULL && errno == EINVAL);
  errno = 0;
  CHECK(strata_reap_memalign(reap, (size_t)1 << 31, 8) == NULL && errno == EINVAL);
  errno = 0;
  CHECK(strata_reap_memalign(reap, (size_t)1 << 63, 8) == NULL && errno == EINVAL);
  strata_reap_destroy(reap);
}

CASE(finds_the_reap_of_a_pointer) {
  strata_reap* one = strata_reap_create(NULL);
  strata_reap* two = strata_reap_create(NULL);
  char* a = strata_reap_malloc(one, 100);
  char* b = strata_reap_malloc(two, 100);
  char* large = strata_reap_malloc(two, 1000000);
  char* plain = malloc(100);
  char* plain_large = malloc(1000000);
  int local;
  CHECK(strata_reap_find(a) == one && strata_reap_find(a + 99) == one);
  CHECK(strata_reap_find(b) == two && strata_reap_find(large) == two);
  CHECK(strata_reap_find(plain) == NULL && strata_reap_find(plain_large) == NULL);
  CHECK(strata_reap_find(&local) == NULL && strata_reap_find(NULL) == NULL);
  strata_reap_destroy(one);
  CHECK(strata_reap_find(a) == NULL);
  strata_reap_destroy(two);
  free(plain);
  free(plain_large);
}

CASE(finds_the_reap_of_an_aligned_block) {
  strata_reap* reap = strata_reap_create_shared(NULL);
  for (size_t align = 32; align <= 1 << 20; align *= 2) {
    for (size_t size = 10; size < 2000000; size *= 31) {
      char* p = strata_reap_memalign(reap, align, size);
      CHECK_AT(strata_reap_find(p) == reap, align);
      strata_reap_free(reap, p);
    }
  }
  // Words in other memory that look like a block of the reap's, 64 KiB behind its start.
  char* large = strata_reap_malloc(reap, 300000);
  char* plain = malloc(2000000);
  for (size_t at = 8192; at < 1900000; at += 4096) {
    const size_t words[] = {(size_t)(plain + at - large + 64), 0x8007};
    memcpy(plain + at - 16, words, 16);
    CHECK_AT(strata_reap_find(plain + at) == NULL, at);
  }
  free(plain);
  strata_reap_destroy(reap);
}

CASE(refuses_enormous_requests) {
  strata_reap* reap = strata_reap_create(NULL);
  errno = 0;
  CHECK(strata_reap_malloc(reap, SIZE_MAX) == NULL && errno == ENOMEM);
  CHECK(strata_reap_malloc(reap, PTRDIFF_MAX) == NULL && errno == ENOMEM);
  CHECK(strata_reap_calloc(reap, SIZE_MAX / 2, 3) == NULL && errno == ENOMEM);
  CHECK(strata_reap_memalign(reap, 4096, SIZE_MAX - 100) == NULL && errno == ENOMEM);
  char* p = strata_reap_malloc(reap, 10);
  CHECK(strata_reap_realloc(reap, p, SIZE_MAX) == NULL);
  strata_reap_free(reap, p);
  strata_reap_destroy(reap);
}

CASE(nests) {
  strata_reap* top = strata_reap_create(NULL);
  strata_reap* middle = strata_reap_create(top);
  strata_reap* low = strata_reap_create(middle);
  char* p = strata_reap_malloc(low, 10);
  CHECK(strata_reap_set_parent(top, low) == EINVAL);
  CHECK(strata_reap_set_parent(top, top) == EINVAL);
  CHECK(strata_reap_set_parent(low, top) == 0);
  strata_reap_destroy(middle);
  CHECK(strata_reap_find(p) == low);
  strata_reap_clear(top);
  CHECK(strata_reap_find(p) == NULL);
  // A chain as long as a stack would not be.
  strata_reap* at = top;
  for (int i = 0; i < 200000; ++i) {
    at = strata_reap_create(at);
    CHECK(at != NULL);
  }
  strata_reap_destroy(top);
}

CASE(gives_memory_back_to_the_process) {
  for (int round = 0; round < 300; ++round) {
    strata_reap* reap = strata_reap_create(NULL);
    for (int i = 0; i < 2000; ++i) memset(strata_reap_malloc(reap, 1000), 1, 1000);
    strata_reap_destroy(reap);
  }
  CHECK(mallinfo2().uordblks < 16 << 20);
}

CASE(tells_the_size_of_its_blocks) {
  strata_reap* one = strata_reap_create(NULL);
  strata_reap* two = strata_reap_create(NULL);
  const size_t sizes[] = {0, 1, 24, 100, 5000, 40000, 300000, 5000000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    char* p = strata_reap_malloc(one, sizes[i]);
    const size_t usable = strata_reap_size(one, p);
    CHECK(usable >= sizes[i] && usable > 0 && usable < sizes[i] + 8192);
    memset(p, 7, usable);
    CHECK(strata_reap_size(two, p) == 0);
    CHECK(strata_reap_size(one, p + 1) == 0);
    strata_reap_free(one, p);
  }
  char* plain = malloc(100);
  int local;
  CHECK(strata_reap_size(one, plain) == 0 && strata_reap_size(one, &local) == 0);
  CHECK(strata_reap_size(one, NULL) == 0);
  char* p = strata_reap_malloc(one, 100);
  char* after = strata_reap_malloc(one, 100);
  strata_reap_free(one, p);
  CHECK(strata_reap_size(one, p) == 0 && strata_reap_size(one, after) >= 100);
  char* aligned = strata_reap_memalign(one, 1 << 16, 100);
  CHECK(strata_reap_size(one, aligned) >= 100);
  free(plain);
  strata_reap_destroy(two);
  strata_reap_destroy(one);
}

CASE(reserves_room_in_one_chunk) {
  strata_reap* reap = strata_reap_create(NULL);
  strata_reap_reserve(reap, 30000);
  const size_t held = strata_reap_held(reap);
  CHECK(held >= 30000 && strata_reap_bytes(reap) == 0);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 250; ++i) memset(strata_reap_malloc(reap, 100), 1, 100);
    CHECK(strata_reap_held(reap) == held);
    strata_reap_clear(reap);
  }
  strata_reap_reserve(reap, SIZE_MAX);
  CHECK(strata_reap_held(reap) < 400000);
  strata_reap_destroy(reap);
}

// The loads under which a pure region grows without bound.
static void StaysNear(strata_reap* reap, size_t live) {
  CHECK_AT(strata_reap_held(reap) <= live + live / 5 + (128 << 10), strata_reap_held(reap));
}

CASE(stays_near_its_live_data_in_a_long_run) {
  strata_reap* reap = strata_reap_create(NULL);
  uint64_t random = 1;
  char* p[3000] = {0};
  size_t size[3000] = {0}, live = 0;
  for (int i = 0; i < 600000; ++i) {
    const size_t at = NextRandom(&random) % 3000;
    strata_reap_free_inline(reap, p[at]);
    live -= size[at];
    // What is asked for changes with time, from 16 to 1,500 bytes.
    size[at] = NextRandom(&random) % 500 + 16 + (size_t)(i / 150000) * 333;
    p[at] = strata_reap_malloc_inline(reap, size[at]);
    p[at][0] = p[at][size[at] - 1] = (char)i;
    live += size[at];
    if (i > 30000) StaysNear(reap, live);
  }
  CHECK(strata_reap_bytes(reap) >= live);
  strata_reap_destroy(reap);
}

static void* taken[256];
static void* Consume(void* reap) {
  for (int i = 0; i < 400000;) {
    void* p = __atomic_exchange_n(&taken[i % 256], NULL, __ATOMIC_ACQUIRE);
    if (p == NULL) {
      sched_yield();
      continue;
    }
    strata_reap_free(reap, p);
    ++i;
  }
  return NULL;
}

CASE(stays_near_its_live_data_between_producer_and_consumer) {
  strata_reap* reap = strata_reap_create_shared(NULL);
  pthread_t consumer;
  CHECK(pthread_create(&consumer, NULL, Consume, reap) == 0);
  for (int i = 0; i < 400000; ++i) {
    while (__atomic_load_n(&taken[i % 256], __ATOMIC_RELAXED) != NULL) sched_yield();
    void* p = strata_reap_malloc(reap, (size_t)i % 700 + 1);
    CHECK(p != NULL);
    __atomic_store_n(&taken[i % 256], p, __ATOMIC_RELEASE);
    if (i % 1000 == 0) StaysNear(reap, 256 * 708);
  }
  pthread_join(consumer, NULL);
  CHECK(strata_reap_bytes(reap) == 0);
  strata_reap_destroy(reap);
}

CASE(serves_inline_calls_as_the_others) {
  strata_reap* reap = strata_reap_create(NULL);
  strata_reap* shared = strata_reap_create_shared(NULL);
  for (size_t size = 0; size < 300000; size = size * 5 / 4 + 1) {
    char* p = strata_reap_malloc_inline(reap, size);
    char* q = strata_reap_malloc(reap, size);
    char* r = strata_reap_malloc_inline(shared, size);
    CHECK((uintptr_t)p % 16 == 0 && strata_reap_find(p) == reap);
    CHECK(strata_reap_find(r) == shared && strata_reap_bytes(shared) >= size);
    memset(p, 1, size);
    memset(q, 2, size);
    memset(r, 3, size);
    strata_reap_free_inline(reap, q);
    strata_reap_free_inline(reap, p);
    strata_reap_free_inline(shared, r);
    CHECK(strata_reap_bytes(reap) == 0 && strata_reap_bytes(shared) == 0);
  }
  strata_reap_free_inline(reap, NULL);
  CHECK(strata_reap_malloc_inline(reap, SIZE_MAX) == NULL && errno == ENOMEM);
  CHECK(strata_reap_malloc_inline(reap, (size_t)1 << 62) == NULL && errno == ENOMEM);
  strata_reap_destroy(shared);
  strata_reap_destroy(reap);
}

// free and realloc know a shared reap's block.
CASE(is_freed_by_free_if_shared) {
  strata_reap* reap = strata_reap_create_shared(NULL);
  for (size_t size = 1; size < 2000000; size = size * 2 + 1) {
    for (size_t align = 16; align <= 1 << 16; align *= 16) {
      char* p = strata_reap_memalign(reap, align, size);
      CHECK(malloc_usable_size(p) >= size);
      memset(p, 7, size);
      char* q = realloc(strata_reap_memalign(reap, align, size), size + 1);
      memset(q, 7, size + 1);
      free(q);
      free(p);
    }
  }
  CHECK(strata_reap_bytes(reap) == 0);
  strata_reap_destroy(reap);
}

// What grows stays in its reap.
CASE(is_resized_by_realloc_if_shared) {
  strata_reap* reap = strata_reap_create_shared(NULL);
  char* p = realloc(strata_reap_malloc(reap, 1), 10);
  memcpy(p, "123456789", 10);
  for (size_t n = 10; n < 3000000; n = n * 3 / 2) {
    char* in_the_way = strata_reap_malloc(reap, 10);
    p = n % 2 == 0 ? realloc(p, n) : reallocarray(p, n, 1);
    CHECK_AT(p != NULL && strcmp(p, "123456789") == 0, n);
    CHECK_AT(strata_reap_find(p) == reap && strata_reap_size(reap, p) >= n, n);
    strata_reap_free(reap, in_the_way);
  }
  for (size_t n = 3000000; n > 10; n /= 3) {
    p = realloc(p, n);
    CHECK_AT(p != NULL && strcmp(p, "123456789") == 0 && strata_reap_find(p) == reap, n);
  }
  strata_reap_free(reap, p);
  CHECK(strata_reap_bytes(reap) == 0);
  strata_reap_set_cap(reap, 50000, NULL, NULL);
  p = strata_reap_malloc(reap, 1000);
  CHECK(realloc(p, 100000) == NULL && errno == ENOMEM && strata_reap_size(reap, p) >= 1000);
  strata_reap_destroy(reap);
}
