// Misuse of scopes. Cases that begin with bad_ get one line; racing_ends and many_ get many.
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>

#include "case.h"
#include "strata/reap.h"
#include "strata/scope.h"

// What a program's SIGABRT handler may do: allocate where the thread is, and fork.
static void AllocateAndFork(int signal) {
  (void)signal;
  free(malloc(100));
  free(malloc(100000));
  const pid_t child = fork();
  if (child == 0) _exit(0);
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

// Two threads allocate while a third ends the scope: what they get is whole.
static bool has_ended;
static void* AllocateUntilItEnds(void* scope) {
  strata_scope_enter(scope);
  while (!__atomic_load_n(&has_ended, __ATOMIC_RELAXED)) CHECK(malloc(60) != NULL);
  strata_scope_enter(NULL);
  return NULL;
}
static void EndBesideAllocations(void (*end)(strata_scope*)) {
  for (int round = 0; round < 200; ++round) {
    strata_scope* scope = strata_scope_create();
    __atomic_store_n(&has_ended, false, __ATOMIC_RELAXED);
    pthread_t threads[2];
    for (int i = 0; i < 2; ++i)
      CHECK(pthread_create(&threads[i], NULL, AllocateUntilItEnds, scope) == 0);
    while (strata_scope_live(scope) < 10000) sched_yield();
    end(scope);
    __atomic_store_n(&has_ended, true, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
    // Memory that two have would show in what is allocated next.
    char* p[100];
    for (size_t i = 0; i < 100; ++i) memset(p[i] = malloc(900 + i), (int)i, 900 + i);
    for (size_t i = 0; i < 100; ++i) {
      for (size_t k = 0; k < 900 + i; ++k) CHECK(p[i][k] == (char)i);
      free(p[i]);
    }
  }
}
CASE(many_closed_beside_allocations) { EndBesideAllocations(strata_scope_close); }
CASE(many_destroyed_beside_allocations) { EndBesideAllocations(strata_scope_destroy); }

CASE(bad_end_of_the_current_one) {
  strata_scope* scope = strata_scope_create();
  strata_scope_enter(scope);
  strata_scope_destroy(scope);
}

CASE(bad_use_after_the_end) {
  strata_scope* scope = strata_scope_create();
  strata_scope_destroy(scope);
  CHECK(strata_scope_live(scope) == 0 && errno == EINVAL);
}

CASE(bad_entry_after_the_end) {
  strata_scope* scope = strata_scope_create();
  strata_scope_close(scope);
  CHECK(strata_scope_enter(scope) == NULL && strata_scope_current() == NULL);
}

static void* Destroy(void* scope) {
  strata_scope_destroy(scope);
  return NULL;
}
CASE(bad_allocation_after_another_thread_ended_it) {
  strata_scope* scope = strata_scope_create();
  strata_scope_enter(scope);
  OnAnotherThread(Destroy, scope);
  errno = 7;
  char* p = malloc(100);
  CHECK(p != NULL && errno == 7);
  strata_scope_enter(NULL);
  free(p);
}

CASE(bad_creation_after_another_thread_ended_it) {
  strata_scope* scope = strata_scope_create();
  strata_scope_enter(scope);
  OnAnotherThread(Destroy, scope);
  errno = 0;
  CHECK(strata_scope_create() == NULL && errno == EINVAL);
  strata_scope_enter(NULL);
  strata_scope* one = strata_scope_create();
  strata_scope* two = strata_scope_create();
  CHECK(one != NULL && two != NULL && one != two);
  strata_scope_close(one);
  strata_scope_close(two);
}

// Of two threads that end a scope one does, and its record is free once.
static strata_scope* contested;
static pthread_barrier_t barrier;
static int arrived;
static void* EndContested(void* rounds) {
  for (int i = 0; i < *(int*)rounds; ++i) {
    pthread_barrier_wait(&barrier);
    __atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL);  // the last steps together
    for (int n = 0; __atomic_load_n(&arrived, __ATOMIC_ACQUIRE) < 2 * (i + 1); ++n) {
      if (n > 1000) sched_yield();
    }
    i % 2 == 0 ? strata_scope_destroy(contested) : strata_scope_close(contested);
    pthread_barrier_wait(&barrier);
  }
  return NULL;
}
CASE(racing_ends) {
  int rounds = 3000;
  pthread_barrier_init(&barrier, NULL, 3);
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) CHECK(pthread_create(&threads[i], NULL, EndContested, &rounds) == 0);
  for (int i = 0; i < rounds; ++i) {
    contested = strata_scope_create();
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    strata_scope* one = strata_scope_create();
    strata_scope* two = strata_scope_create();
    CHECK_AT(one != two, i);
    strata_scope_close(one);
    strata_scope_close(two);
  }
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
}

// The record that the thread is in serves no other scope.
static void* DestroyAndMakeOthers(void* scope) {
  strata_scope_destroy(scope);
  for (int i = 0; i < 100; ++i) CHECK(strata_scope_create() != scope);
  return NULL;
}
CASE(bad_allocation_where_another_scope_might_be) {
  strata_scope* scope = strata_scope_create();
  strata_scope_enter(scope);
  OnAnotherThread(DestroyAndMakeOthers, scope);
  char* p = malloc(100);
  strata_scope_enter(NULL);
  CHECK(p != NULL);
  free(p);
}

// Its record serves no other scope while its cap's function is asked for a thread outside of it:
// what that returns must not become another's cap.
static strata_scope* others[10];
static size_t EndItAndMakeOthers(void* scope, size_t live, size_t wanted, size_t cap) {
  (void)live;
  strata_scope_destroy(scope);
  for (int i = 0; i < 10; ++i) CHECK((others[i] = strata_scope_create()) != scope);
  return cap + wanted;
}
CASE(bad_cap_function_that_ends_its_scope) {
  strata_scope* scope = strata_scope_create();
  strata_scope_enter(scope);
  strata_reap* reap = strata_reap_find(malloc(100));
  strata_scope_enter(NULL);
  strata_scope_set_cap(scope, 1000, EndItAndMakeOthers, scope);
  errno = 0;
  CHECK(strata_reap_malloc(reap, 2000) == NULL && errno == EINVAL);
  for (int i = 0; i < 10; ++i) {
    strata_scope_enter(others[i]);
    CHECK(malloc(100000) != NULL);
    strata_scope_enter(NULL);
    strata_scope_destroy(others[i]);
  }
}

CASE(bad_free_twice) {
  strata_scope* scope = strata_scope_create();
  strata_scope_enter(scope);
  char* p = malloc(100);
  char* q = malloc(100);
  strata_scope_enter(NULL);
  free(p);
  free(p);
  free(q);
  CHECK(strata_scope_live(scope) == 0);
}

CASE(bad_free_twice_with_a_handler_that_allocates_and_forks) {
  alarm(20);
  signal(SIGABRT, AllocateAndFork);
  strata_scope* scope = strata_scope_create();
  strata_scope_enter(scope);
  char* p = malloc(100);
  malloc(100);
  free(p);
  free(p);
}

CASE(bad_realloc_with_a_handler_that_allocates_and_forks) {
  alarm(20);
  signal(SIGABRT, AllocateAndFork);
  strata_scope* scope = strata_scope_create();
  strata_scope_enter(scope);
  char* p = malloc(100);
  malloc(100);
  free(p);
  CHECK(strata_reap_realloc(strata_reap_find(p), p, 50) == NULL && errno == EINVAL);
}

// To less and to more, with blocks behind it that are in use.
static void ReallocFreed(size_t size) {
  strata_scope* scope = strata_scope_create();
  strata_scope_enter(scope);
  char* p = malloc(1000);
  char* q = malloc(1000);
  const size_t live = strata_scope_live(scope);
  free(p);
  CHECK(malloc_usable_size(p) == 0);
  errno = 0;
  CHECK(realloc(p, size) == NULL && errno == EINVAL);
  strata_scope_enter(NULL);
  CHECK(strata_scope_live(scope) < live && strata_scope_live(scope) >= 1000);
  free(q);
  CHECK(strata_scope_live(scope) == 0);
  strata_scope_destroy(scope);
}
CASE(bad_realloc_of_a_freed_block_to_less) { ReallocFreed(500); }
CASE(bad_realloc_of_a_freed_block_to_more) { ReallocFreed(100000); }

CASE(bad_free_after_destroy) {
  strata_scope* scope = strata_scope_create();
  strata_scope_enter(scope);
  malloc(100);
  char* p = malloc(100);
  strata_scope_enter(NULL);
  strata_scope_destroy(scope);
  free(p);
}

CASE(bad_destroy_of_its_reap) {
  strata_scope* scope = strata_scope_create();
  strata_scope_enter(scope);
  char* p = malloc(100);
  strata_scope_enter(NULL);
  strata_reap_destroy(strata_reap_find(p));
  memset(p, 1, 100);
  strata_scope_destroy(scope);
}
