// Scopes from C, as a program that links the library sees them. Their caps: scope_cap_cases.c;
// their misuse: scope_misuse_cases.c.
#include <pthread.h>
#include <stdbool.h>
#include <sys/wait.h>

#include "case.h"
#include "strata/reap.h"
#include "strata/scope.h"

static bool IsIn(strata_scope* scope, void* p) {
  const size_t before = strata_scope_live(scope);
  const size_t size = malloc_usable_size(p);
  free(p);
  return strata_scope_live(scope) + size + 8 <= before;
}

CASE(counts_what_the_thread_allocates) {
  char* outside = malloc(100);
  strata_scope* scope = strata_scope_create();
  CHECK(scope != NULL && strata_scope_current() == NULL);
  CHECK(strata_scope_enter(scope) == NULL && strata_scope_current() == scope);
  CHECK(strata_scope_live(scope) == 0);
  char* p[100];
  size_t bytes = 0;
  for (size_t i = 0; i < 100; ++i) {
    p[i] = malloc(i * 50);
    memset(p[i], (int)i, i * 50);
    bytes += i * 50;
    CHECK((uintptr_t)p[i] % 16 == 0 && malloc_usable_size(p[i]) >= i * 50);
  }
  CHECK(strata_scope_live(scope) >= bytes && strata_scope_live(scope) <= bytes + 100 * 32);
  free(outside);
  CHECK(strata_scope_enter(NULL) == scope);
  outside = malloc(100);
  CHECK(strata_scope_live(scope) <= bytes + 100 * 32);
  for (size_t i = 0; i < 100; ++i) {
    for (size_t k = 0; k < i * 50; ++k) CHECK(p[i][k] == (char)i);
    free(p[i]);
  }
  CHECK(strata_scope_live(scope) == 0);
  strata_scope_close(scope);
  free(outside);
}

CASE(has_every_way_to_allocate) {
  strata_scope* scope = strata_scope_create();
  strata_scope_enter(scope);
  CHECK(IsIn(scope, malloc(1)));
  CHECK(IsIn(scope, malloc(0)));
  CHECK(IsIn(scope, malloc(30000)));
  CHECK(IsIn(scope, malloc(3000000)));
  CHECK(IsIn(scope, strdup("a string")));
  CHECK(IsIn(scope, realloc(NULL, 100)));
  CHECK(IsIn(scope, reallocarray(NULL, 100, 100)));
  CHECK(IsIn(scope, aligned_alloc(64, 640)));
  CHECK(IsIn(scope, memalign(1 << 16, 100)));
  CHECK(IsIn(scope, memalign(1 << 20, 3000000)));
  CHECK(IsIn(scope, valloc(5000)));
  void* p;
  CHECK(posix_memalign(&p, 4096, 9) == 0 && (uintptr_t)p % 4096 == 0 && IsIn(scope, p));
  for (size_t size = 10; size < 3000000; size *= 30) {
    char* zeros = malloc(size);
    memset(zeros, 1, size);
    free(zeros);
    zeros = calloc(size, 1);
    for (size_t i = 0; i < size; ++i) CHECK(zeros[i] == 0);
    CHECK(IsIn(scope, zeros));
  }
  CHECK(strata_scope_live(scope) == 0);
  errno = 0;
  CHECK(malloc(Hide(SIZE_MAX)) == NULL && errno == ENOMEM);
  CHECK(malloc(Hide(PTRDIFF_MAX)) == NULL && malloc(Hide((size_t)1 << 50)) == NULL);
  CHECK(calloc(Hide(SIZE_MAX / 2), 3) == NULL && memalign(64, Hide(SIZE_MAX - 100)) == NULL);
  CHECK(strata_scope_live(scope) == 0);
  errno = 7;
  free(malloc(100));
  CHECK(errno == 7);
  strata_scope_enter(NULL);
  strata_scope_destroy(scope);
}

void free_sized(void* p, size_t size);
void free_aligned_sized(void* p, size_t align, size_t size);

CASE(has_the_frees_that_know_the_size) {
  strata_scope* scope = strata_scope_create();
  strata_scope_enter(scope);
  for (size_t size = 1; size < 1000000; size = size * 3 / 2 + 1) {
    free_sized(malloc(size), size);
    free_aligned_sized(aligned_alloc(64, size), 64, size);
    free_sized(realloc(malloc(size * 2), size), size);
  }
  CHECK(strata_scope_live(scope) == 0);
  strata_scope_enter(NULL);
  strata_scope_destroy(scope);
}

CASE(grows_a_large_block_in_few_moves) {
  strata_scope* scope = strata_scope_create();
  strata_scope_enter(scope);
  char* p = malloc(4096);
  int moves = 0;
  for (size_t n = 8192; n <= 16 << 20; n += 4096) {
    p[n - 4097] = (char)(n >> 12);
    char* grown = realloc(p, n);
    CHECK_AT(grown != NULL && strata_scope_live(scope) >= n, n);
    moves += grown != p;
    p = grown;
  }
  for (size_t n = 8192; n <= 16 << 20; n += 4096) CHECK_AT(p[n - 4097] == (char)(n >> 12), n);
  CHECK_AT(moves < 60, moves);
  CHECK(strata_scope_live(scope) < (size_t)17 << 20);
  strata_scope_set_cap(scope, 20 << 20, NULL, NULL);
  CHECK(realloc(p, Hide(24 << 20)) == NULL && errno == ENOMEM && p[4095] == 2);
  strata_scope_enter(NULL);
  free(p);
  CHECK(strata_scope_live(scope) == 0);
  strata_scope_destroy(scope);
}

CASE(resizes) {
  strata_scope* scope = strata_scope_create();
  char* outside = malloc(50);
  char* large = malloc(2000000);
  memcpy(outside, "outside", 8);
  memcpy(large, "large", 6);
  strata_scope_enter(scope);
  char* p = realloc(NULL, 10);
  memcpy(p, "123456789", 10);
  for (size_t n = 10; n < 3000000; n = n * 3 / 2) {
    p = realloc(p, n);
    CHECK(p != NULL && memcmp(p, "123456789", 10) == 0);
    CHECK(malloc_usable_size(p) >= n && strata_scope_live(scope) >= n);
    CHECK(strata_scope_live(scope) <= n + n / 8 + 20000);
  }
  p = realloc(p, 100);
  CHECK(strata_scope_live(scope) < 4000);
  outside = realloc(outside, 4000);
  large = realloc(large, 3000000);
  CHECK(strcmp(outside, "outside") == 0 && strcmp(large, "large") == 0);
  CHECK(strata_scope_live(scope) > 3004000);
  strata_scope_enter(NULL);
  // What grows outside leaves the scope.
  p = realloc(p, 100000);
  outside = realloc(outside, 100000);
  large = realloc(large, 6000000);
  CHECK(memcmp(p, "123456789", 10) == 0);
  CHECK(strcmp(outside, "outside") == 0 && strcmp(large, "large") == 0);
  CHECK(strata_scope_live(scope) == 0);
  strata_scope_destroy(scope);
  free(p);
  free(outside);
  free(large);
}

CASE(blocks_outlive_a_closed_scope) {
  for (int round = 0; round < 200; ++round) {
    strata_scope* scope = strata_scope_create();
    strata_scope_enter(scope);
    char* p[200];
    for (size_t i = 0; i < 200; ++i) memset(p[i] = malloc(1000), (int)i, 1000);
    strata_scope_enter(NULL);
    strata_scope_close(scope);
    for (size_t i = 0; i < 200; ++i) {
      for (size_t k = 0; k < 1000; k += 99) CHECK(p[i][k] == (char)i);
      CHECK(strata_reap_find(p[i]) != NULL);
      if (i != 0) free(p[i]);
    }
    p[0] = realloc(p[0], 500000);
    CHECK(p[0][999] == 0 && strata_reap_find(p[0]) == NULL);
    free(p[0]);
  }
  CHECK(mallinfo2().uordblks < 8 << 20);
}

CASE(destroys_what_is_left) {
  for (int round = 0; round < 300; ++round) {
    strata_scope* scope = strata_scope_create();
    strata_scope_enter(scope);
    for (int i = 0; i < 2000; ++i) memset(malloc(1000), 1, 1000);
    memset(malloc(1 << 20), 1, 1 << 20);
    CHECK(strata_scope_live(scope) > 3000000);
    strata_scope_enter(NULL);
    strata_scope_destroy(scope);
  }
  CHECK(mallinfo2().uordblks < 16 << 20);
}

CASE(nests) {
  strata_scope* outer = strata_scope_create();
  strata_scope_enter(outer);
  char* a = malloc(1000);
  const size_t with_a = strata_scope_live(outer);
  strata_scope* inner = strata_scope_create();
  CHECK(strata_scope_enter(inner) == outer);
  char* b = malloc(5000);
  const size_t of_b = strata_scope_live(inner);
  CHECK(of_b >= 5000 && strata_scope_live(outer) == with_a + of_b);
  free(a);
  CHECK(strata_scope_live(inner) == of_b && strata_scope_live(outer) == of_b);
  CHECK(strata_scope_enter(outer) == inner);
  char* c = malloc(300);
  CHECK(strata_scope_live(inner) == of_b);
  strata_scope_close(inner);
  CHECK(strata_scope_live(outer) > of_b);
  strata_scope_enter(NULL);
  free(c);
  CHECK(strata_scope_live(outer) == of_b);
  strata_scope_destroy(outer);
  // The inner scope's block is its own, and the outer account may be gone.
  memset(b, 1, 5000);
  free(b);
  // A chain that ends from the inside and from the outside.
  strata_scope* chain[500];
  char* blocks[500];
  for (int i = 0; i < 500; ++i) {
    chain[i] = strata_scope_create();
    strata_scope_enter(chain[i]);
    blocks[i] = malloc(100);
  }
  CHECK(strata_scope_live(chain[0]) >= 50000);
  strata_scope_enter(NULL);
  for (int i = 0; i < 500; ++i) strata_scope_close(chain[i % 2 != 0 ? i : 498 - i]);
  for (int i = 0; i < 500; ++i) free(blocks[i]);
}

CASE(takes_a_hint_of_what_comes) {
  strata_scope* scope = strata_scope_create();
  strata_scope_expect(scope, 100000);
  strata_scope_expect(scope, SIZE_MAX);
  strata_scope_enter(scope);
  char* first = malloc(1000);
  for (int i = 1; i < 90; ++i) {
    char* p = malloc(1000);
    CHECK(p > first && p < first + 100000);  // one after the other
  }
  strata_scope_enter(NULL);
  strata_scope_destroy(scope);
}

// Its blocks pin no hugepage of a scope that comes and goes beside it.
CASE(takes_a_hint_that_it_lasts) {
  enum { kBlocks = 1000 };
  strata_scope* lasting = strata_scope_create();
  strata_scope* passing = strata_scope_create();
  strata_scope_lasts(lasting);
  static char* stays[kBlocks];
  static char* goes[kBlocks];
  for (size_t i = 0; i < kBlocks; ++i) {
    const size_t size = i % 100 == 0 ? 200000 : 20000;
    strata_scope_enter(lasting);
    CHECK((stays[i] = malloc(size)) != NULL);
    memset(stays[i], 1, size);
    strata_scope_enter(passing);
    CHECK((goes[i] = malloc(size)) != NULL);
    memset(goes[i], 2, size);
  }
  strata_scope_enter(NULL);
  for (size_t i = 0; i < kBlocks; ++i) {
    for (size_t k = 0; k < kBlocks; ++k)
      CHECK((uintptr_t)stays[i] >> 21 != (uintptr_t)goes[k] >> 21);
  }
  strata_scope_destroy(passing);
  for (size_t i = 0; i < kBlocks; ++i) CHECK(stays[i][19999] == 1);
  for (size_t i = 0; i < kBlocks; i += 2) free(stays[i]);
  strata_scope_destroy(lasting);
}

// Nor do they where it frees something between: then its memory has holes, and chunks grow slowly.
CASE(lasts_also_where_it_frees) {
  enum { kBlocks = 300 };
  strata_scope* lasting = strata_scope_create();
  strata_scope* passing = strata_scope_create();
  strata_scope_lasts(lasting);
  static char* stays[kBlocks];
  static char* goes[kBlocks];
  for (size_t i = 0; i < kBlocks; ++i) {
    strata_scope_enter(lasting);
    char* hole = malloc(700);
    CHECK((stays[i] = malloc(900)) != NULL);
    free(hole);
    strata_scope_enter(passing);
    CHECK((goes[i] = malloc(900)) != NULL && (hole = malloc(700)) != NULL);
    CHECK(malloc(100) != NULL);
    free(hole);
  }
  strata_scope_enter(NULL);
  for (size_t i = 0; i < kBlocks; ++i) {
    for (size_t k = 0; k < kBlocks; ++k)
      CHECK((uintptr_t)stays[i] >> 21 != (uintptr_t)goes[k] >> 21);
  }
  strata_scope_destroy(passing);
  strata_scope_destroy(lasting);
}

static strata_scope* shared_scope;
static void* handed[64];
static void* UseShared(void* seed) {
  uint64_t random = (uint64_t)(uintptr_t)seed;
  CHECK(strata_scope_current() == NULL);
  CHECK(strata_scope_enter(shared_scope) == NULL);
  for (int i = 0; i < 50000; ++i) {
    const size_t size = NextRandom(&random) % 600 + 16;
    size_t* p = malloc(size);
    p[0] = size;
    memset(p + 1, (int)size, size - 8);
    p = __atomic_exchange_n(&handed[NextRandom(&random) % 64], p, __ATOMIC_ACQ_REL);
    if (p == NULL) continue;
    CHECK(((unsigned char*)p)[p[0] - 1] == (unsigned char)p[0]);
    if (i % 10 == 0) p = realloc(p, 700);
    free(p);
  }
  strata_scope_enter(NULL);
  return NULL;
}

CASE(is_shared_by_threads_and_forks) {
  shared_scope = strata_scope_create();
  pthread_t threads[4];
  for (uintptr_t i = 0; i < 4; ++i)
    CHECK(pthread_create(&threads[i], NULL, UseShared, (void*)(i + 1)) == 0);
  strata_scope_enter(shared_scope);
  for (int i = 0; i < 10; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      free(malloc(100));
      strata_scope_destroy(strata_scope_create());
      _exit(strata_scope_current() != shared_scope);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
  strata_scope_enter(NULL);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < 64; ++i) free(handed[i]);
  CHECK(strata_scope_live(shared_scope) == 0);
  strata_scope_close(shared_scope);
}

// Each thread in scopes of its own, one after the other, which it needs no lock for, frees what the
// others allocated in theirs; and the main thread forks.
static void* UseManyScopes(void* seed) {
  uint64_t random = (uint64_t)(uintptr_t)seed;
  for (int round = 0; round < 200; ++round) {
    strata_scope_enter(shared_scope);
    strata_scope* own = strata_scope_create();
    strata_scope_enter(own);
    for (int i = 0; i < 100; ++i) {
      const size_t size = NextRandom(&random) % 600 + 16;
      size_t* p = malloc(size);
      p[0] = size;
      memset(p + 1, (int)size, size - 8);
      if (round % 4 == 0) p = __atomic_exchange_n(&handed[i % 64], p, __ATOMIC_ACQ_REL);
      if (p == NULL) continue;
      CHECK(((unsigned char*)p)[p[0] - 1] == (unsigned char)p[0]);
      free(p);
    }
    strata_scope_enter(NULL);
    strata_scope_close(own);
  }
  return NULL;
}

CASE(has_owners_that_others_disturb) {
  memset(handed, 0, sizeof(handed));
  shared_scope = strata_scope_create();
  pthread_t threads[4];
  for (uintptr_t i = 0; i < 4; ++i)
    CHECK(pthread_create(&threads[i], NULL, UseManyScopes, (void*)(i + 1)) == 0);
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      for (int k = 0; k < 64; ++k) free(__atomic_exchange_n(&handed[k], NULL, __ATOMIC_ACQ_REL));
      free(malloc(100));
      _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < 64; ++i) free(handed[i]);
  CHECK_AT(strata_scope_live(shared_scope) == 0, strata_scope_live(shared_scope));
  strata_scope_destroy(shared_scope);
}

// What the threads of the parent were about to do is not in the child's account.
CASE(has_a_true_account_in_a_forked_child) {
  shared_scope = strata_scope_create();
  strata_scope* inner = NULL;
  strata_scope_enter(shared_scope);
  inner = strata_scope_create();
  strata_reap* reap = strata_reap_find(malloc(100));
  strata_scope_enter(NULL);
  pthread_t threads[4];
  for (uintptr_t i = 0; i < 4; ++i)
    CHECK(pthread_create(&threads[i], NULL, UseShared, (void*)(i + 1)) == 0);
  for (int i = 0; i < 40; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      CHECK_AT(strata_scope_live(shared_scope) == strata_reap_bytes(reap),
               strata_scope_live(shared_scope) - strata_reap_bytes(reap));
      CHECK(strata_scope_live(inner) == 0);
      _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  strata_scope_close(inner);
  strata_scope_destroy(shared_scope);
}

// Reaps and their records are no blocks of the scope in which they are made.
CASE(leaves_reaps_alone) {
  strata_scope* scope = strata_scope_create();
  strata_scope_enter(scope);
  strata_reap* reap = strata_reap_create(NULL);
  char* p = strata_reap_malloc(reap, 100000);
  char* q = strata_reap_malloc(reap, 100);
  CHECK(strata_scope_live(scope) == 0 && strata_reap_find(q) == reap);
  strata_reap_free(reap, p);
  strata_scope_enter(NULL);
  strata_scope_destroy(scope);
  memset(q, 1, 100);
  strata_reap_destroy(reap);
}

// With samples taken all the time, in a scope and out of it.
CASE(gets_along_with_the_sampler) {
  for (int round = 0; round < 30; ++round) {
    char* outside[50];
    for (int i = 0; i < 50; ++i) outside[i] = malloc(3000);
    strata_scope* scope = strata_scope_create();
    strata_scope_enter(scope);
    char* inside[500];
    for (size_t i = 0; i < 500; ++i) inside[i] = malloc(i * 20);
    for (int i = 0; i < 50; i += 2) outside[i] = realloc(outside[i], 9000);
    strata_scope_enter(NULL);
    for (int i = 1; i < 50; ++i) free(outside[i]);
    for (int i = round % 2; i < 500; i += 2) free(inside[i]);
    strata_scope_destroy(scope);
    if (round % 2 != 0) free(malloc(100000));
  }
}
