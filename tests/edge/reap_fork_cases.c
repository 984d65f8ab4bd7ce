// A shared reap, its threads, and forks.
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "case.h"
#include "strata/reap.h"
#include "strata/scope.h"

static strata_reap* shared_reap;
static void* UseShared(void* arg) {
  (void)arg;
  char* mine[100] = {0};
  for (size_t i = 0; i < 100000; ++i) {
    const size_t at = i * 7919 % 100;
    strata_reap_free(shared_reap, mine[at]);
    mine[at] = strata_reap_malloc(shared_reap, i % 300 + 1);
    CHECK(mine[at] != NULL);
    mine[at][i % 300] = 1;
  }
  for (size_t i = 0; i < 100; ++i) strata_reap_free(shared_reap, mine[i]);
  return NULL;
}

CASE(is_shared_by_threads_and_forks) {
  shared_reap = strata_reap_create_shared(NULL);
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) CHECK(pthread_create(&threads[i], NULL, UseShared, NULL) == 0);
  for (int i = 0; i < 20; ++i) {
    // The child makes the first of these anew, which the fork has taken off its list.
    strata_reap* brief[3];
    for (int k = 0; k < 3; ++k) brief[k] = strata_reap_create_shared(shared_reap);
    for (int k = 0; k < 2; ++k) strata_reap_destroy(brief[k]);
    const pid_t child = fork();
    if (child == 0) {
      char* p = strata_reap_malloc(shared_reap, 100);
      strata_reap_free(shared_reap, p);
      strata_reap_destroy(strata_reap_create_shared(shared_reap));
      p = strata_reap_malloc(brief[2], 100);
      strata_reap_destroy(brief[2]);
      _exit(p == NULL);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    strata_reap_destroy(brief[2]);
  }
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  CHECK(strata_reap_bytes(shared_reap) == 0);
  strata_reap_destroy(shared_reap);
}

static atomic_int handlers_end, handlers_run;

static void ForkInHandler(int number) {
  (void)number;
  const int kept = errno;
  const pid_t child = fork();
  if (child == 0) _exit(0);
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  errno = kept;
  atomic_fetch_add(&handlers_run, 1);
}

static void RunHandler(pthread_t thread) {
  const int before = atomic_load(&handlers_run);
  CHECK(pthread_kill(thread, SIGUSR1) == 0);
  while (atomic_load(&handlers_run) == before) usleep(50);
}

static void* UseSharedUntilTheEnd(void* unused) {
  while (!atomic_load(&handlers_end)) UseShared(unused);
  return NULL;
}

// Each may have interrupted its thread in the reap. A deadlock shows as the alarm's signal.
CASE(is_shared_by_threads_whose_handlers_fork) {
  enum { kThreads = 3 };
  alarm(30);
  CHECK(signal(SIGUSR1, ForkInHandler) != SIG_ERR);
  shared_reap = strata_reap_create_shared(NULL);
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i)
    CHECK(pthread_create(&threads[i], NULL, UseSharedUntilTheEnd, NULL) == 0);
  for (int i = 0; i < 60; ++i) {
    for (int t = 0; t < kThreads; ++t) CHECK(pthread_kill(threads[t], SIGUSR1) == 0);
    usleep(2000);
  }
  atomic_store(&handlers_end, 1);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  strata_reap_destroy(shared_reap);
}

static strata_reap* above;

static void* ClearAbove(void* unused) {
  while (!atomic_load(&handlers_end)) strata_reap_clear(above);
  return unused;
}

static void* UseOneThatIsKept(void* unused) {
  while (!atomic_load(&handlers_end)) CHECK(strata_reap_malloc(shared_reap, 100) != NULL);
  return unused;
}

// The handler's thread has the reap's lock, for which another waits that has the lock of the tree.
CASE(is_cleared_from_above_while_handlers_fork) {
  alarm(30);
  CHECK(signal(SIGUSR1, ForkInHandler) != SIG_ERR);
  above = strata_reap_create_shared(NULL);
  shared_reap = strata_reap_create_shared(above);
  strata_reap_keep(shared_reap);
  pthread_t user, clearer;
  CHECK(pthread_create(&user, NULL, UseOneThatIsKept, NULL) == 0);
  CHECK(pthread_create(&clearer, NULL, ClearAbove, NULL) == 0);
  for (int i = 0; i < 20; ++i) {
    RunHandler(user);
    usleep(1000);
  }
  atomic_store(&handlers_end, 1);
  CHECK(pthread_join(user, NULL) == 0 && pthread_join(clearer, NULL) == 0);
  strata_reap_destroy(shared_reap);
  strata_reap_destroy(above);
}

static atomic_int is_in_handler;
static _Atomic(char*) gift;

static void ForkInHandlerAtLeisure(int number) {
  atomic_store(&is_in_handler, 1);
  usleep(10000);
  ForkInHandler(number);
}

static void* UseScope(void* unused) {
  strata_scope* scope = strata_scope_create();
  strata_scope_enter(scope);
  atomic_store(&gift, malloc(64));
  while (!atomic_load(&handlers_end)) {
    void* volatile p[8];
    for (size_t i = 0; i < 8; ++i) CHECK((p[i] = malloc(40 + i * 16)) != NULL);
    for (size_t i = 0; i < 8; ++i) free(p[i]);
  }
  strata_scope_enter(NULL);
  strata_scope_destroy(scope);
  return unused;
}

// The lock of a scope's reap is biased to the thread in the scope. The handler interrupted it
// there, as a rule, and another thread, which frees a block of the scope's, has ended the bias and
// waits for it.
CASE(scopes_thread_forks_in_a_handler_as_another_ends_its_bias) {
  alarm(30);
  CHECK(signal(SIGUSR1, ForkInHandlerAtLeisure) != SIG_ERR);
  for (int i = 0; i < 10; ++i) {
    // Each time the bias ends, the next scopes are made without.
    for (int k = 0; k < 64; ++k) strata_scope_destroy(strata_scope_create());
    atomic_store(&handlers_end, 0);
    atomic_store(&is_in_handler, 0);
    atomic_store(&handlers_run, 0);
    atomic_store(&gift, NULL);
    pthread_t user;
    CHECK(pthread_create(&user, NULL, UseScope, NULL) == 0);
    while (atomic_load(&gift) == NULL) usleep(100);
    CHECK(pthread_kill(user, SIGUSR1) == 0);
    while (atomic_load(&is_in_handler) == 0) usleep(100);
    free(atomic_load(&gift));
    while (atomic_load(&handlers_run) == 0) usleep(100);
    atomic_store(&handlers_end, 1);
    CHECK(pthread_join(user, NULL) == 0);
  }
}
