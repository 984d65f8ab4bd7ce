// What programs see of APR's pools. Each case writes a transcript, which has to be the same with
// APR's own pools and with those of libstrata-apr.so. Cases that begin with reap_ or bad_ are about
// what only the latter can do, and about its misuse.
#include <apr_general.h>
#include <apr_hash.h>
#include <apr_strings.h>
#include <apr_tables.h>
#include <apr_thread_proc.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "apr_pools.h"
#include "case.h"
#include "strata/apr.h"

// Hidden behind a macro over apr_palloc, but there for programs that were built without it.
void*(apr_pcalloc)(apr_pool_t* pool, apr_size_t size);

static apr_status_t TellInChild(void* data) {
  printf("in child %s\n", (const char*)data);
  return APR_SUCCESS;
}

static apr_pool_t* late_pool;
static apr_status_t RegisterLate(void* data) {
  Tell(data);
  apr_pool_cleanup_register(late_pool, "late", Tell, apr_pool_cleanup_null);
  return APR_EGENERAL;
}

static void Add(apr_pool_t* pool, const char* name) {
  apr_pool_cleanup_register(pool, name, Tell, TellInChild);
}

CASE(cleanups_run_in_order) {
  apr_initialize();
  apr_pool_t* pool = New(NULL);
  apr_pool_t* child = New(pool);
  apr_pool_t* grandchild = New(child);
  apr_pool_t* second = New(pool);
  for (int round = 0; round < 2; ++round) {
    Add(pool, "pool 1");
    Add(pool, "pool 2");
    apr_pool_pre_cleanup_register(pool, "before 1", Tell);
    apr_pool_pre_cleanup_register(pool, "before 2", Tell);
    if (round == 0) {
      Add(child, "child");
      Add(grandchild, "grandchild");
      Add(second, "second");
    }
    late_pool = pool;
    apr_pool_cleanup_register(pool, "registers", RegisterLate, apr_pool_cleanup_null);
    puts(round == 0 ? "clear" : "destroy");
    round == 0 ? apr_pool_clear(pool) : apr_pool_destroy(pool);
  }
  puts("terminate");
  Add(New(NULL), "of the end");
  apr_terminate();
}

CASE(cleanups_are_killed_and_run) {
  apr_initialize();
  apr_pool_t* pool = New(NULL);
  char* a = apr_pstrdup(pool, "a");
  char* b = apr_pstrdup(pool, "b");
  Add(pool, a);
  Add(pool, b);
  Add(pool, a);
  apr_pool_pre_cleanup_register(pool, b, Tell);
  apr_pool_cleanup_kill(pool, a, Tell);         // the newest of the two
  apr_pool_cleanup_kill(pool, b, TellInChild);  // of none
  apr_pool_cleanup_kill(NULL, b, Tell);
  printf("run: %d\n", (int)apr_pool_cleanup_run(pool, b, Tell));
  apr_pool_child_cleanup_set(pool, a, Tell, apr_pool_cleanup_null);
  apr_pool_destroy(pool);
  CHECK(apr_pool_cleanup_null(NULL) == APR_SUCCESS);
}

CASE(children_run_their_cleanups_before_exec) {
  apr_initialize();
  apr_pool_t* pool = New(NULL);
  apr_pool_t* child = New(pool);
  Add(pool, "pool");
  Add(child, "child");
  Add(child, "changed");
  apr_pool_child_cleanup_set(child, "changed", Tell, apr_pool_cleanup_null);
  fflush(stdout);
  const pid_t forked = fork();
  if (forked == 0) {
    apr_pool_cleanup_for_exec();
    fflush(stdout);
    _exit(0);
  }
  int status;
  CHECK(waitpid(forked, &status, 0) == forked && status == 0);
  apr_pool_destroy(pool);
}

CASE(pools_know_their_family) {
  apr_initialize();
  apr_pool_t* pool = New(NULL);
  apr_pool_t* child = New(pool);
  apr_pool_t* other = New(NULL);
  printf("%d %d %d %d %d\n", apr_pool_is_ancestor(pool, child), apr_pool_is_ancestor(child, pool),
         apr_pool_is_ancestor(pool, pool), apr_pool_is_ancestor(NULL, pool),
         apr_pool_is_ancestor(other, child));
  printf("%d %d\n", apr_pool_parent_get(child) == pool, apr_pool_parent_get(pool) != NULL);
  printf("%d\n", apr_pool_allocator_get(child) == apr_pool_allocator_get(pool));
  apr_pool_tag(pool, "tagged");
  apr_pool_t* alone = NULL;
  printf("%d\n", (int)apr_pool_create_unmanaged(&alone));
  printf("%d %d\n", apr_pool_parent_get(alone) == NULL,
         apr_allocator_owner_get(apr_pool_allocator_get(alone)) == alone);
  Add(alone, "alone");
  Add(New(alone), "child of alone");
  apr_pool_destroy(alone);
  apr_allocator_t* allocator;
  CHECK(apr_allocator_create(&allocator) == APR_SUCCESS);
  apr_pool_t* owner = NULL;
  CHECK(apr_pool_create_ex(&owner, pool, NULL, allocator) == APR_SUCCESS);
  apr_allocator_owner_set(allocator, owner);
  printf("%d\n", apr_pool_allocator_get(New(owner)) == allocator);
  apr_memnode_t* node = apr_allocator_alloc(allocator, 10000);
  CHECK(node != NULL);
  apr_allocator_free(allocator, node);
  apr_pool_destroy(pool);
  apr_pool_destroy(other);
}

CASE(userdata_is_kept_and_cleaned) {
  apr_initialize();
  apr_pool_t* pool = New(NULL);
  void* found = &found;
  printf("%d", (int)apr_pool_userdata_get(&found, "nothing", pool));
  printf(" %d\n", found == NULL);
  char key[] = "key";
  apr_pool_userdata_set("first", key, Tell, pool);
  apr_pool_userdata_setn("second", "second key", NULL, pool);
  memcpy(key, "xxx", 3);
  apr_pool_userdata_get(&found, "key", pool);
  puts(found);
  apr_pool_userdata_set("third", "key", Tell, pool);
  apr_pool_userdata_get(&found, "key", pool);
  puts(found);
  apr_pool_userdata_get(&found, "second key", pool);
  puts(found);
  apr_pool_clear(pool);
  apr_pool_userdata_get(&found, "key", pool);
  printf("%d\n", found == NULL);
  apr_pool_destroy(pool);
}

static unsigned long Hash(const char* text) {
  unsigned long hash = 5381;
  for (; *text != '\0'; ++text) hash = hash * 33 + (unsigned char)*text;
  return hash;
}

CASE(text_of_every_length_is_printed) {
  apr_initialize();
  apr_pool_t* pool = New(NULL);
  unsigned long all = 0;
  for (int n = 0; n < 3000; ++n) {
    char* text = apr_psprintf(pool, "%*d|%s", n, n, "end");
    all = all * 31 + Hash(text) + strlen(text);
  }
  char* large = apr_psprintf(pool, "%0300000d", 7);
  printf("%lu %lu %zu\n", all, Hash(large), strlen(large));
  puts(apr_psprintf(pool, "%s %d %5.2f %c %x %pp", "text", -3, 2.5, 'c', 255, (void*)0));
  printf("[%s]\n", apr_psprintf(pool, "%s", ""));
  apr_pool_destroy(pool);
}

CASE(containers_grow) {
  apr_initialize();
  apr_pool_t* pool = New(NULL);
  apr_table_t* table = apr_table_make(pool, 1);
  apr_hash_t* hash = apr_hash_make(pool);
  apr_array_header_t* array = apr_array_make(pool, 1, sizeof(int));
  for (int i = 0; i < 5000; ++i) {
    apr_table_set(table, apr_psprintf(pool, "key%d", i % 700), apr_itoa(pool, i));
    apr_hash_set(hash, apr_psprintf(pool, "%d", i), APR_HASH_KEY_STRING, apr_itoa(pool, i * 3));
    APR_ARRAY_PUSH(array, int) = i;
  }
  long sum = 0;
  for (int i = 0; i < array->nelts; ++i) sum += APR_ARRAY_IDX(array, i, int);
  printf("%ld %u %d\n", sum, apr_hash_count(hash), apr_table_elts(table)->nelts);
  printf("%s %s\n", apr_table_get(table, "key699"), (char*)apr_hash_get(hash, "4999", 4));
  puts(apr_pstrcat(pool, "a", apr_pstrndup(pool, "bcd", 2), apr_pmemdup(pool, "e", 2), NULL));
  apr_pool_destroy(pool);
}

CASE(zeroed_memory_is_zero) {
  apr_initialize();
  apr_pool_t* pool = New(NULL);
  for (int round = 0; round < 20; ++round) {
    for (size_t n = 0; n < 60000; n = n * 2 + 1) {
      char* p = (apr_pcalloc)(pool, n);
      for (size_t i = 0; i < n; ++i) CHECK(p[i] == 0);
      memset(p, 1, n);
      char* q = apr_palloc(pool, n);
      CHECK((uintptr_t)q % 8 == 0);
      memset(q, 2, n);
    }
    apr_pool_clear(pool);
  }
  apr_pool_destroy(pool);
}

CASE(failures_call_the_abort_function) {
  apr_initialize();
  apr_pool_t* pool = New(NULL);
  printf("%d\n", apr_palloc(pool, SIZE_MAX / 2) == NULL);
  apr_pool_abort_set(NoteFailure, pool);
  apr_pool_t* child = New(pool);
  printf("%d\n", apr_pool_abort_get(child) == NoteFailure);
  printf("%d\n", apr_palloc(child, SIZE_MAX / 2) == NULL);
  printf("%d\n", apr_palloc(child, SIZE_MAX - 3) == NULL);
  apr_pool_destroy(pool);
}

static struct {
  const char* name;
  pid_t pid;
} noted[5];
static int noted_count;

// In place of libc's, also for APR: the transcript says which process is sent what. One that APR
// has waited for must be sent nothing, as its id may be another's by then.
int kill(pid_t pid, int number) {
  const char* name = "an unknown process";
  for (int i = 0; i < noted_count; ++i)
    if (noted[i].pid == pid) name = noted[i].name;
  printf("signal %d to %s\n", number, name);
  return (int)syscall(SYS_kill, pid, number);
}

static pid_t Noted(apr_pool_t* pool, const char* name, const char* command,
                   apr_kill_conditions_e how) {
  apr_procattr_t* attributes;
  CHECK(apr_procattr_create(&attributes, pool) == APR_SUCCESS);
  const char* arguments[] = {"/bin/sh", "-c", command, NULL};
  apr_proc_t* process = apr_palloc(pool, sizeof *process);
  CHECK(apr_proc_create(process, "/bin/sh", arguments, NULL, attributes, pool) == APR_SUCCESS);
  apr_pool_note_subprocess(pool, process, how);
  noted[noted_count].name = name;
  noted[noted_count++].pid = process->pid;
  return process->pid;
}

CASE(processes_end_with_their_pool) {
  apr_initialize();
  apr_pool_t* pool = New(NULL);
  const pid_t killed = Noted(pool, "killed", "exec sleep 1000", APR_KILL_ALWAYS);
  const pid_t asked = Noted(pool, "asked", "exec sleep 1000", APR_KILL_AFTER_TIMEOUT);
  const pid_t deaf =
      Noted(pool, "deaf", "trap '' TERM; while :; do sleep 0.1; done", APR_KILL_AFTER_TIMEOUT);
  const pid_t awaited = Noted(pool, "awaited", "sleep 0.2; exit 3", APR_JUST_WAIT);
  const pid_t left = Noted(pool, "left", "exec sleep 1000", APR_KILL_NEVER);
  apr_sleep(300000);  // for the trap
  fflush(stdout);
  apr_pool_destroy(pool);
  printf("%d %d %d %d %d\n", kill(killed, 0), kill(asked, 0), kill(deaf, 0), kill(awaited, 0),
         kill(left, 0));
  kill(left, SIGKILL);
}

static apr_pool_t* family;
static void* APR_THREAD_FUNC MakeChildren(apr_thread_t* thread, void* unused) {
  (void)thread, (void)unused;
  for (int i = 0; i < 20000; ++i) {
    apr_pool_t* child = New(family);
    apr_pool_t* grandchild = New(child);
    memset(apr_palloc(child, 100), 1, 100);
    memset(apr_palloc(grandchild, 10000), 1, 10000);
    if (i % 3 == 0) apr_pool_clear(child);
    apr_pool_destroy(child);
  }
  return NULL;
}

CASE(threads_make_children_of_one_pool) {
  apr_initialize();
  family = NewForThreads();
  apr_thread_t* threads[4];
  for (int i = 0; i < 4; ++i)
    CHECK(apr_thread_create(&threads[i], NULL, MakeChildren, NULL, family) == APR_SUCCESS);
  for (int i = 0; i < 4; ++i) {
    apr_status_t status;
    CHECK(apr_thread_join(&status, threads[i]) == APR_SUCCESS);
  }
  apr_pool_destroy(family);
  puts("done");
}

static long ResidentKib(void) {
  long pages = 0;
  FILE* statm = fopen("/proc/self/statm", "r");
  CHECK(statm != NULL && fscanf(statm, "%*d %ld", &pages) == 1);
  fclose(statm);
  return pages * 4;
}

CASE(reap_frees_single_objects) {
  apr_initialize();
  CHECK(strata_apr_active());
  apr_pool_t* pool = New(NULL);
  char* kept = apr_pstrdup(pool, "kept");
  const long before = ResidentKib();
  for (int i = 0; i < 1000000; ++i) {
    char* p = apr_palloc(pool, (size_t)(i % 900) + 100);
    p[0] = 1;
    apr_pool_cleanup_register(pool, p, Tell, Tell);
    apr_pool_cleanup_kill(pool, p, Tell);
    CHECK(strata_apr_free(pool, p) == 1);
  }
  CHECK(ResidentKib() - before < 4096);
  CHECK(strata_apr_pool_held(pool) < 65536);
  CHECK(strata_apr_pool_reap(pool) != NULL && strcmp(kept, "kept") == 0);
  apr_pool_destroy(pool);
}

CASE(reap_gives_memory_back_when_cleared) {
  apr_initialize();
  apr_pool_t* pool = New(NULL);
  for (int i = 0; i < 10000; ++i) memset(apr_palloc(pool, 1000), 1, 1000);
  CHECK(strata_apr_pool_held(pool) > 10000000);
  apr_pool_clear(pool);
  CHECK(strata_apr_pool_held(pool) < 200000);
  apr_pool_destroy(pool);
  CHECK(mallinfo2().uordblks < 4 << 20);
}

CASE(plain_pools_free_nothing) {
  apr_initialize();
  CHECK(!strata_apr_active());
  apr_pool_t* pool = New(NULL);
  CHECK(strata_apr_free(pool, apr_palloc(pool, 10)) == 0);
}

CASE(bad_free_to_another_pool) {
  apr_initialize();
  strata_apr_free(New(NULL), apr_palloc(New(NULL), 100));
}

CASE(bad_free_twice) {
  apr_initialize();
  apr_pool_t* pool = New(NULL);
  void* p = apr_palloc(pool, 100);
  apr_palloc(pool, 100);
  strata_apr_free(pool, p);
  strata_apr_free(pool, p);
}

CASE(bad_free_of_malloc) {
  apr_initialize();
  strata_apr_free(New(NULL), malloc(100));
}

CASE(bad_use_after_destroy) {
  apr_initialize();
  apr_pool_t* pool = New(NULL);
  apr_pool_destroy(pool);
  apr_palloc(pool, 100);
}
