// What hangs on APR's pools besides plain memory: bucket brigades and the allocators they take
// from, pools that stand alone, files, processes, threads. As apr_cases.c: the transcript has to be
// the same with APR's own pools and with those of libstrata-apr.so.
#include <apr_buckets.h>
#include <apr_file_io.h>
#include <apr_general.h>
#include <apr_portable.h>
#include <apr_strings.h>
#include <apr_thread_pool.h>
#include <apr_thread_proc.h>
#include <fcntl.h>
#include <stdio.h>

#include "apr_pools.h"
#include "case.h"

static unsigned long Sum(apr_bucket_brigade* brigade) {
  unsigned long sum = 0;
  for (apr_bucket* b = APR_BRIGADE_FIRST(brigade); b != APR_BRIGADE_SENTINEL(brigade);
       b = APR_BUCKET_NEXT(b)) {
    const char* data;
    apr_size_t length;
    if (APR_BUCKET_IS_EOS(b)) continue;
    CHECK(apr_bucket_read(b, &data, &length, APR_BLOCK_READ) == APR_SUCCESS);
    for (apr_size_t i = 0; i < length; ++i) sum = sum * 31 + (unsigned char)data[i];
  }
  return sum;
}

CASE(brigades_pass_data_between_pools) {
  apr_initialize();
  apr_pool_t* connection = New(NULL);
  apr_bucket_alloc_t* buckets = apr_bucket_alloc_create(connection);
  for (int round = 0; round < 300; ++round) {
    apr_pool_t* request = New(connection);
    apr_bucket_brigade* first = apr_brigade_create(request, buckets);
    apr_bucket_brigade* second = apr_brigade_create(connection, buckets);
    char* text = apr_psprintf(request, "%0*d", 100 + round * 30, round);
    apr_brigade_puts(first, NULL, NULL, text);
    APR_BRIGADE_INSERT_TAIL(first, apr_bucket_pool_create(text, strlen(text), request, buckets));
    APR_BRIGADE_INSERT_TAIL(first, apr_bucket_immortal_create("immortal", 8, buckets));
    apr_brigade_printf(first, NULL, NULL, "%d %s", round, text);
    APR_BRIGADE_INSERT_TAIL(first, apr_bucket_eos_create(buckets));
    apr_bucket* middle;
    CHECK(apr_brigade_partition(first, 77, &middle) == APR_SUCCESS);
    second = apr_brigade_split_ex(first, middle, second);
    const unsigned long whole = Sum(first) + 7 * Sum(second);
    apr_pool_destroy(request);  // the pool bucket turns into one of the heap
    if (round % 100 == 0) printf("%lu %lu\n", whole, Sum(second));
    apr_brigade_destroy(second);
  }
  apr_bucket_alloc_destroy(buckets);
  apr_pool_destroy(connection);
}

CASE(unmanaged_pools_stand_alone) {
  apr_initialize();
  apr_allocator_t* allocator;
  CHECK(apr_allocator_create(&allocator) == APR_SUCCESS);
  apr_allocator_max_free_set(allocator, 100000);
  apr_pool_t *one, *two;
  CHECK(apr_pool_create_unmanaged_ex(&one, NoteFailure, allocator) == APR_SUCCESS);
  CHECK(apr_pool_create_core_ex(&two, NoteFailure, NULL) == APR_SUCCESS);
  printf("%d %d\n", apr_pool_allocator_get(one) == allocator,
         apr_allocator_owner_get(allocator) == NULL);
  printf("%d %d\n", apr_pool_allocator_get(two) != allocator,
         apr_allocator_owner_get(apr_pool_allocator_get(two)) == two);
  apr_pool_t* child = New(one);
  printf("%d %d\n", apr_pool_allocator_get(child) == allocator,
         apr_pool_abort_get(child) == NoteFailure);
  printf("%d\n", apr_palloc(child, SIZE_MAX / 2) == NULL);
  apr_pool_cleanup_register(child, "child", Tell, apr_pool_cleanup_null);
  apr_bucket_alloc_t* buckets = apr_bucket_alloc_create_ex(allocator);
  apr_bucket_free(memset(apr_bucket_alloc(50000, buckets), 1, 50000));
  apr_bucket_alloc_destroy(buckets);
  apr_terminate();  // neither of them is the global pool's
  apr_pool_cleanup_register(two, "two", Tell, apr_pool_cleanup_null);
  memset(apr_palloc(two, 100000), 1, 100000);
  apr_pool_destroy(one);
  apr_pool_destroy(two);
  apr_allocator_destroy(allocator);
}

CASE(apr_starts_and_ends_many_times) {
  for (int round = 0; round < 50; ++round) {
    CHECK(apr_initialize() == APR_SUCCESS && apr_initialize() == APR_SUCCESS);
    apr_pool_t* pool = New(New(NULL));
    memset(apr_palloc(pool, 20000), 1, 20000);
    apr_terminate();
    memset(apr_palloc(pool, 20000), 1, 20000);  // started twice, ended once
    if (round == 0) apr_pool_cleanup_register(pool, "at the end", Tell, apr_pool_cleanup_null);
    apr_terminate();
  }
}

CASE(files_close_with_their_pool) {
  apr_initialize();
  apr_pool_t* pool = New(NULL);
  apr_file_t *read, *kept, *in, *out;
  apr_os_file_t numbers[4];
  CHECK(apr_file_open(&read, "/dev/null", APR_READ | APR_BUFFERED, 0, pool) == APR_SUCCESS);
  CHECK(apr_file_open(&kept, "/dev/null", APR_READ, 0, New(pool)) == APR_SUCCESS);
  CHECK(apr_file_pipe_create(&in, &out, pool) == APR_SUCCESS);
  apr_file_t* files[] = {read, kept, in, out};
  for (int i = 0; i < 4; ++i) CHECK(apr_os_file_get(&numbers[i], files[i]) == APR_SUCCESS);
  apr_file_t* moved;
  apr_pool_t* other = New(NULL);
  CHECK(apr_file_setaside(&moved, kept, other) == APR_SUCCESS);
  apr_pool_destroy(pool);
  for (int i = 0; i < 4; ++i) printf("%d ", fcntl(numbers[i], F_GETFD) == -1);
  apr_pool_clear(other);
  printf("%d\n", fcntl(numbers[1], F_GETFD) == -1);
}

CASE(children_get_pipes_and_no_more) {
  apr_initialize();
  apr_pool_t* pool = New(NULL);
  for (int round = 0; round < 5; ++round) {
    apr_pool_t* request = New(pool);
    apr_procattr_t* attributes;
    CHECK(apr_procattr_create(&attributes, request) == APR_SUCCESS);
    CHECK(apr_procattr_io_set(attributes, APR_FULL_BLOCK, APR_FULL_BLOCK, APR_NO_PIPE) == 0);
    const char* arguments[] = {"/usr/bin/tr", "a-z", "A-Z", NULL};
    apr_proc_t process;
    CHECK(apr_proc_create(&process, "/usr/bin/tr", arguments, NULL, attributes, request) == 0);
    apr_pool_note_subprocess(request, &process, APR_KILL_AFTER_TIMEOUT);
    char line[100] = "";
    apr_file_puts("hello\n", process.in);
    apr_file_close(process.in);
    CHECK(apr_file_gets(line, sizeof line, process.out) == APR_SUCCESS);
    printf("%s", line);
    apr_pool_destroy(request);
  }
}

static apr_pool_t* shared;
static void* APR_THREAD_FUNC Work(apr_thread_t* thread, void* data) {
  apr_pool_t* pool = New(shared);
  apr_pool_t* own = New(apr_thread_pool_get(thread));
  for (int i = 0; i < 50; ++i) {
    memset(apr_palloc(pool, 3000), 1, 3000);
    apr_psprintf(own, "%d %s", i, (const char*)data);
  }
  apr_pool_destroy(own);
  apr_pool_destroy(pool);
  return NULL;
}

CASE(thread_pools_work) {
  apr_initialize();
  shared = NewForThreads();
  apr_thread_pool_t* threads;
  CHECK(apr_thread_pool_create(&threads, 2, 4, shared) == APR_SUCCESS);
  for (int i = 0; i < 2000; ++i)
    CHECK(apr_thread_pool_push(threads, Work, "data", APR_THREAD_TASK_PRIORITY_NORMAL, NULL) == 0);
  while (apr_thread_pool_tasks_count(threads) != 0) apr_sleep(1000);
  apr_thread_pool_destroy(threads);
  apr_pool_destroy(shared);
  puts("done");
}
