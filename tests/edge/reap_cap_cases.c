// The caps of reaps: what the function that is asked at one may do. Cases that begin with bad_
// misuse it.
#include <pthread.h>
#include <setjmp.h>
#include <sys/wait.h>

#include "case.h"
#include "racing_askers.h"
#include "strata/reap.h"

static size_t Raise(void* context, size_t held, size_t wanted, size_t cap) {
  int* times = context;
  CHECK(held + wanted > cap);
  return ++*times <= 2 ? cap * 2 : cap;
}

CASE(obeys_its_cap) {
  strata_reap* reap = strata_reap_create(NULL);
  strata_reap_set_cap(reap, 100000, NULL, NULL);
  size_t n = 0;
  while (strata_reap_malloc(reap, 1000) != NULL) ++n;
  CHECK(errno == ENOMEM && n > 60 && strata_reap_held(reap) <= 100000);
  int times = 0;
  strata_reap_set_cap(reap, 100000, Raise, &times);
  while (strata_reap_malloc(reap, 1000) != NULL) ++n;
  CHECK(times == 3 && n > 260 && strata_reap_held(reap) <= 400000);
  strata_reap_destroy(reap);
}

static size_t Refuse(void* context, size_t held, size_t wanted, size_t cap) {
  (void)held, (void)wanted, (void)cap;
  ++*(int*)context;
  return 0;
}
CASE(keeps_a_cap_whose_function_refuses) {
  for (int i = 0; i < 2; ++i) {
    strata_reap* reap = i == 0 ? strata_reap_create(NULL) : strata_reap_create_shared(NULL);
    int asked = 0;
    strata_reap_set_cap(reap, 100000, Refuse, &asked);
    size_t n = 0;
    while (n < 1000 && strata_reap_malloc(reap, 1000) != NULL) ++n;
    CHECK(errno == ENOMEM && n < 100 && asked == 1);
    CHECK(strata_reap_memalign(reap, 4096, 100000) == NULL && asked == 2);
    CHECK(strata_reap_held(reap) <= 100000);
    strata_reap_destroy(reap);
  }
}

// The function holds no lock and may do with the reap what it likes.
struct Program {
  strata_reap* reap;
  char* cache[200];
  size_t cached, asked;
};
static void* UseFromAnotherThread(void* reap) {
  strata_reap_free(reap, strata_reap_malloc(reap, 10));
  return NULL;
}
static size_t EmptyCache(void* context, size_t held, size_t wanted, size_t cap) {
  struct Program* program = context;
  CHECK(held == strata_reap_held(program->reap) && held + wanted > cap);
  while (program->cached != 0) strata_reap_free(program->reap, program->cache[--program->cached]);
  OnAnotherThread(UseFromAnotherThread, program->reap);
  const pid_t child = fork();
  if (child == 0) {
    free(strata_reap_malloc(strata_reap_create_shared(program->reap), 10));
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  ++program->asked;
  return cap;
}
CASE(has_the_room_that_the_function_of_its_cap_makes) {
  alarm(60);
  for (int shared = 0; shared < 2; ++shared) {
    struct Program program = {0};
    program.reap = shared ? strata_reap_create_shared(NULL) : strata_reap_create(NULL);
    strata_reap_set_cap(program.reap, 100000, EmptyCache, &program);
    for (size_t i = 0; i < 500; ++i) {
      char* p = strata_reap_malloc(program.reap, 1000 + i);
      CHECK_AT(p != NULL, i);
      program.cache[program.cached++] = p;
    }
    CHECK(program.asked > 3 && strata_reap_held(program.reap) <= 100000);
    program.asked = 0;
    CHECK(strata_reap_malloc(program.reap, 200000) == NULL && errno == ENOMEM);
    CHECK(program.asked == 1);
    strata_reap_destroy(program.reap);
  }
}

static jmp_buf out_of_function;
static size_t Jump(void* context, size_t held, size_t wanted, size_t cap) {
  (void)context, (void)held, (void)wanted, (void)cap;
  longjmp(out_of_function, 1);
}
CASE(is_whole_where_the_function_of_its_cap_jumps) {
  alarm(20);
  strata_reap* volatile reap = NULL;
  for (volatile int i = 0; i < 20; ++i) {
    if (i % 10 == 0) {
      reap = i == 0 ? strata_reap_create(NULL) : strata_reap_create_shared(NULL);
      strata_reap_set_cap(reap, 20000, Jump, NULL);
    }
    if (setjmp(out_of_function) == 0) {
      for (;;) CHECK(strata_reap_malloc(reap, 3000) != NULL);
    }
    CHECK(strata_reap_held(reap) <= 20000);
    strata_reap_clear(reap);
  }
}

static strata_reap* raced;
static void* AllocateInRaced(size_t size) { return strata_reap_malloc(raced, size); }

CASE(keeps_the_higher_cap_of_two_threads_that_ask_at_once) {
  raced = strata_reap_create_shared(NULL);
  CHECK(strata_reap_malloc(raced, 100) != NULL);
  strata_reap_set_cap(raced, strata_reap_held(raced), GrantBoth, NULL);
  ExpectBothGranted(AllocateInRaced);
  CHECK(strata_reap_held(raced) >= kRacedLarge + kRacedSmall);
  strata_reap_destroy(raced);
}

static size_t EndIt(void* context, size_t held, size_t wanted, size_t cap) {
  strata_reap** reaps = context;
  strata_reap_destroy(reaps[0]);
  for (int i = 1; i < 4; ++i) reaps[i] = strata_reap_create(NULL);
  (void)held;
  return cap + wanted;
}
CASE(bad_cap_function_that_ends_its_reap) {
  strata_reap* reaps[4] = {strata_reap_create(NULL)};
  strata_reap_set_cap(reaps[0], 10000, EndIt, reaps);
  errno = 0;
  CHECK(strata_reap_malloc(reaps[0], 20000) == NULL && errno == EINVAL);
  for (int i = 1; i < 4; ++i) {
    CHECK(strata_reap_held(reaps[i]) == 0);
    CHECK(strata_reap_malloc(reaps[i], 1000000) != NULL);
  }
}
