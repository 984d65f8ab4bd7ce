// The caps of scopes: what the function that is asked at one may do.
#include <stdbool.h>
#include <sys/wait.h>

#include "case.h"
#include "racing_askers.h"
#include "strata/reap.h"
#include "strata/scope.h"

// glibc declares malloc a leaf function, so the compiler would not expect it to call Double.
static volatile int asked;
static size_t Double(void* context, size_t live, size_t wanted, size_t cap) {
  CHECK(strata_scope_current() == NULL && live + wanted > cap);
  free(malloc(100000));  // outside of the scope
  ++asked;
  return *(bool*)context ? 2 * cap : cap;
}

CASE(obeys_its_cap) {
  strata_scope* outer = strata_scope_create();
  strata_scope_enter(outer);
  strata_scope* scope = strata_scope_create();
  strata_scope_enter(scope);
  strata_scope_set_cap(scope, 100000, NULL, NULL);
  CHECK(malloc(Hide(200000)) == NULL && errno == ENOMEM && strata_scope_live(outer) == 0);
  void* first = NULL;
  void* p;
  size_t n = 0;
  for (; (p = malloc(1000)) != NULL; ++n) {
    if (first == NULL) first = p;
  }
  CHECK(n >= 97 && n <= 99 && strata_scope_live(scope) <= 100000);
  CHECK(calloc(10, 100) == NULL && memalign(64, 1000) == NULL && realloc(first, 5000) == NULL);
  free(first);
  CHECK((first = malloc(1000)) != NULL);
  bool more = true;
  strata_scope_set_cap(scope, 100000, Double, &more);
  for (size_t i = 0; i < 250; ++i) CHECK(malloc(1000) != NULL);
  CHECK(asked == 2);
  more = false;
  while (malloc(1000) != NULL) ++n;
  CHECK(asked == 3 && strata_scope_live(scope) <= 400000);
  // The cap of the scope around holds too.
  strata_scope_set_cap(scope, 0, NULL, NULL);
  strata_scope_set_cap(outer, 500000, NULL, NULL);
  const size_t before = strata_scope_live(scope);
  while (malloc(1000) != NULL) ++n;
  CHECK(strata_scope_live(outer) <= 500000 && strata_scope_live(scope) > before);
  CHECK(strata_scope_live(outer) == strata_scope_live(scope));
  strata_scope_enter(NULL);
  strata_scope_destroy(scope);
  CHECK(strata_scope_live(outer) == 0);
  strata_scope_destroy(outer);
}

static volatile bool is_child;
static size_t ForkAndRaise(void* context, size_t live, size_t wanted, size_t cap) {
  (void)context;
  const pid_t child = fork();
  if (child != 0) {
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  } else {
    is_child = true;
  }
  CHECK(live + wanted > cap);
  return 2 * cap;
}

CASE(may_fork_in_the_function_of_its_cap) {
  strata_scope* scope = strata_scope_create();
  strata_scope_set_cap(scope, 10000, ForkAndRaise, NULL);
  strata_scope_enter(scope);
  char* p = malloc(9000);
  char* q = malloc(9000);
  CHECK(p != NULL && q != NULL);
  CHECK(strata_scope_live(scope) == strata_reap_bytes(strata_reap_find(q)));
  free(p);
  free(q);
  CHECK(strata_scope_live(scope) == 0);
  if (is_child) _exit(0);
  strata_scope_enter(NULL);
  strata_scope_destroy(scope);
}

// The function may make room instead of raising the cap.
static void* volatile spare;
static size_t FreeSpare(void* context, size_t live, size_t wanted, size_t cap) {
  (void)context;
  (void)live;
  (void)wanted;
  free(spare);
  spare = NULL;
  return cap;
}

CASE(has_the_room_that_the_function_of_its_cap_makes) {
  strata_scope* scope = strata_scope_create();
  strata_scope_set_cap(scope, 10000, FreeSpare, NULL);
  strata_scope_enter(scope);
  spare = malloc(6000);
  char* p = malloc(6000);
  CHECK(p != NULL && strata_scope_live(scope) <= 10000);
  CHECK(malloc(6000) == NULL && errno == ENOMEM);
  strata_scope_enter(NULL);
  strata_scope_destroy(scope);
}

static size_t Refuse(void* context, size_t live, size_t wanted, size_t cap) {
  (void)context, (void)live, (void)wanted, (void)cap;
  return 0;
}
CASE(keeps_a_cap_whose_function_refuses) {
  strata_scope* scope = strata_scope_create();
  strata_scope_set_cap(scope, 100000, Refuse, NULL);
  strata_scope_enter(scope);
  size_t n = 0;
  while (n < 1000 && malloc(1000) != NULL) ++n;
  CHECK(errno == ENOMEM && n < 100 && strata_scope_live(scope) <= 100000);
  CHECK(malloc(1000) == NULL && malloc(10) != NULL);
  strata_scope_enter(NULL);
  strata_scope_destroy(scope);
}

static strata_scope* raced;
static void* AllocateInRaced(size_t size) {
  CHECK(strata_scope_enter(raced) == NULL);
  void* p = malloc(size);
  strata_scope_enter(NULL);
  return p;
}

CASE(keeps_the_higher_cap_of_two_threads_that_ask_at_once) {
  raced = strata_scope_create();
  strata_scope_set_cap(raced, 100, GrantBoth, NULL);
  ExpectBothGranted(AllocateInRaced);
  CHECK(strata_scope_live(raced) >= kRacedLarge + kRacedSmall);
  strata_scope_destroy(raced);
}
