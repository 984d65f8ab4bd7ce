/* What modules see of nginx's pools, as a handler that answers with a transcript: it has to be the
 * same with nginx's own pools and with those on reaps. Cases that begin with reap_ are about what
 * nginx's own cannot do.
 *
 *   location /case { pool_case; }   GET /case?NAME */
#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include <stdarg.h>
#include <stdio.h>

/* The module is also loaded without libstrata.so. */
typedef struct strata_reap strata_reap;
strata_reap* strata_reap_find(const void* p) __attribute__((weak));
void* strata_reap_malloc(strata_reap* reap, size_t size) __attribute__((weak));
size_t strata_reap_size(strata_reap* reap, const void* p) __attribute__((weak));

static char transcript[8192];
static size_t length;

static void Say(const char* format, ...) __attribute__((format(printf, 1, 2)));
static void Say(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int written =
      vsnprintf(transcript + length, sizeof(transcript) - length, format, arguments);
  va_end(arguments);
  if (written > 0) length = ngx_min(length + (size_t)written, sizeof(transcript) - 1);
}

static const size_t sizes[] = {512, 1024, 4096, 16384, 100000}; /* of pools */
enum { kSizes = sizeof(sizes) / sizeof(*sizes) };

static void Tell(void* data) { Say(" %s", (const char*)data); }

static ngx_pool_cleanup_t* Add(ngx_pool_t* pool, size_t size, const char* text) {
  ngx_pool_cleanup_t* made = ngx_pool_cleanup_add(pool, size);
  if (size != 0) {
    ngx_memset(made->data, 'x', size);
    ngx_cpystrn(made->data, (u_char*)text, size);
  } else {
    Say(made->data == NULL ? "" : " [data without size]");
    made->data = (void*)text;
  }
  made->handler = Tell;
  return made;
}

static void Fill(ngx_pool_t* pool, size_t count, size_t size, int with) {
  for (size_t i = 0; i < count; ++i) ngx_memset(ngx_palloc(pool, size), with, size);
}

static void CleanupsRun(ngx_http_request_t* r) {
  for (size_t i = 0; i < kSizes; ++i) {
    ngx_pool_t* pool = ngx_create_pool(sizes[i], r->connection->log);
    Add(pool, 0, "static");
    Add(pool, 20, "small");
    Fill(pool, 100, 300, 1);
    Add(pool, 5000, "large");
    ngx_pool_cleanup_t* silent = Add(pool, 20, "silent");
    Add(pool, 1, "");
    silent->handler = NULL;
    Say("%zu:", sizes[i]);
    ngx_destroy_pool(pool);
    Say("\n");
  }
}

static void CleanupsAreReordered(ngx_http_request_t* r) {
  ngx_pool_t* pool = ngx_create_pool(4096, r->connection->log);
  static ngx_pool_cleanup_t of_the_module = {Tell, "module's", NULL};
  Add(pool, 20, "first");
  ngx_pool_cleanup_t* second = Add(pool, 20, "second");
  Add(pool, 20, "third");
  pool->cleanup = second; /* the third is unlinked */
  of_the_module.next = pool->cleanup;
  pool->cleanup = &of_the_module;
  ngx_destroy_pool(pool);
}

static void FilesAreClosed(ngx_http_request_t* r) {
  ngx_pool_t* pool = ngx_create_pool(4096, r->connection->log);
  int fds[3];
  for (int i = 0; i < 3; ++i) {
    fds[i] = open("/dev/null", O_RDONLY);
    ngx_pool_cleanup_t* made = ngx_pool_cleanup_add(pool, sizeof(ngx_pool_cleanup_file_t));
    made->handler = ngx_pool_cleanup_file;
    *(ngx_pool_cleanup_file_t*)made->data =
        (ngx_pool_cleanup_file_t){fds[i], (u_char*)"null", r->connection->log};
  }
  ngx_pool_run_cleanup_file(pool, fds[1]);
  for (int i = 0; i < 3; ++i) Say("%d ", fcntl(fds[i], F_GETFD) == -1);
  ngx_destroy_pool(pool);
  for (int i = 0; i < 3; ++i) Say("%d ", fcntl(fds[i], F_GETFD) == -1);
}

static void MemoryIsZeroedAndAligned(ngx_http_request_t* r) {
  ngx_uint_t wrong = 0;
  for (size_t i = 0; i < kSizes; ++i) {
    ngx_pool_t* pool = ngx_create_pool(sizes[i], r->connection->log);
    for (ngx_uint_t round = 0; round < 3; ++round) {
      for (size_t n = 1; n < 70000; n = n * 3 + 1) {
        const u_char* zeroed = ngx_pcalloc(pool, n);
        for (size_t k = 0; k < n; ++k) wrong += zeroed[k] != 0;
        wrong += (uintptr_t)ngx_palloc(pool, n) % NGX_ALIGNMENT != 0;
        for (size_t align = 16; align <= 4096; align *= 4)
          wrong += (uintptr_t)ngx_pmemalign(pool, n, align) % align != 0;
        Fill(pool, 3, n, 0xff);
        ngx_memset(ngx_pnalloc(pool, n), 0xff, n);
      }
      ngx_reset_pool(pool);
      wrong += pool->chain != NULL;
    }
    ngx_destroy_pool(pool);
  }
  Say("wrong: %u\n", (unsigned)wrong);
}

static void ContainersGrow(ngx_http_request_t* r) {
  ngx_pool_t* pool = ngx_create_pool(1024, r->connection->log);
  ngx_array_t* array = ngx_array_create(pool, 1, sizeof(int));
  ngx_list_t* list = ngx_list_create(pool, 3, sizeof(int));
  long sum = 0;
  for (int i = 0; i < 3000; ++i) {
    *(int*)ngx_array_push(array) = i;
    *(int*)ngx_list_push(list) = i;
    ngx_chain_t* link = ngx_alloc_chain_link(pool);
    ngx_free_chain(pool, link);
  }
  for (ngx_uint_t i = 0; i < array->nelts; ++i) sum += ((int*)array->elts)[i];
  for (const ngx_list_part_t* part = &list->part; part != NULL; part = part->next)
    for (ngx_uint_t i = 0; i < part->nelts; ++i) sum += ((int*)part->elts)[i];
  ngx_array_destroy(array);
  ngx_destroy_pool(pool);
  Say("%ld\n", sum);
}

static void SayFreed(ngx_pool_t* pool, void* p) {
  Say(ngx_pfree(pool, p) == NGX_OK ? " freed" : " declined");
}

static void WhatIsNoBlockIsDeclined(ngx_http_request_t* r) {
  for (size_t i = 0; i < kSizes; ++i) {
    ngx_pool_t* pool = ngx_create_pool(sizes[i], r->connection->log);
    ngx_pool_t* other = ngx_create_pool(sizes[i], r->connection->log);
    int local = 0;
    char* large = ngx_palloc(pool, 200000);
    SayFreed(pool, &local);
    SayFreed(pool, large + 16);
    SayFreed(pool, NULL);
    SayFreed(other, large);
    SayFreed(pool, large);
    Say("\n");
    ngx_destroy_pool(other);
    ngx_destroy_pool(pool);
  }
}

static long ResidentKib(void) {
  long pages = 0;
  FILE* statm = fopen("/proc/self/statm", "r");
  if (statm == NULL || fscanf(statm, "%*d %ld", &pages) != 1) pages = 1L << 40;
  if (statm != NULL) fclose(statm);
  return pages * 4;
}

/* A reset frees all but the cleanups, which run at the end, once, with what they were given. */
static void ReapResetKeepsCleanups(ngx_http_request_t* r) {
  for (size_t i = 0; i < kSizes; ++i) {
    ngx_pool_t* pool = ngx_create_pool(sizes[i], r->connection->log);
    Fill(pool, 5, 30, 1);
    Add(pool, 20, "first");
    Add(pool, 3000, "large");
    const long before = ResidentKib();
    for (int round = 0; round < 300; ++round) {
      Fill(pool, 200, 400, 2);
      Fill(pool, 2, 70000, 3);
      if (round % 100 == 0) Add(pool, 20, "later");
      ngx_reset_pool(pool);
    }
    Fill(pool, 200, 400, 4);
    const long grown = ResidentKib() - before;
    Say("%zu: %s:", sizes[i], grown < 4096 ? "bounded" : "grows");
    ngx_destroy_pool(pool);
    Say("\n");
  }
}

/* The pool of an idle connection has no reap for its buffer, but does not grow by such. */
static void ReapABufferIsMallocs(ngx_http_request_t* r) {
  ngx_pool_t* pool = ngx_create_pool(512, r->connection->log);
  for (int i = 0; i < 10; ++i) {
    void* p = ngx_palloc(pool, 1024);
    ngx_memset(p, 1, 1024);
    Say("%s", strata_reap_find(p) == NULL ? "malloc" : "reap");
    if (i % 2 == 0) SayFreed(pool, p);
    Say(" ");
  }
  ngx_reset_pool(pool);
  Say("%s", strata_reap_find(ngx_palloc(pool, 1024)) == NULL ? "malloc" : "reap");
  ngx_destroy_pool(pool);
}

/* A pool that nginx made before the module with the reaps was loaded. */
static ngx_pool_t* early;
static void* early_large;

static void* CreateConf(ngx_cycle_t* cycle) {
  static ngx_flag_t settings;
  if (early == NULL) {
    early = ngx_create_pool(1024, cycle->log);
    Add(early, 20, "before");
    early_large = ngx_palloc(early, 50000);
  }
  return &settings;
}

static void ReapAnEarlierPoolHasOne(ngx_http_request_t* r) {
  (void)r;
  void* p = ngx_palloc(early, 100);
  strata_reap* reap = strata_reap_find(p);
  Add(early, 20, "after");
  Say("%s", reap != NULL && strata_reap_find(ngx_palloc(early, 3000)) == reap ? "one" : "another");
  SayFreed(early, p);
  early->cleanup->next = NULL;
  ngx_destroy_pool(early);
}

static void AnEarlierPoolLivesOn(ngx_http_request_t* r) {
  (void)r;
  char* large = ngx_palloc(early, 50000);
  ngx_memset(large, 1, 50000);
  SayFreed(early, early_large);
  SayFreed(early, large);
  SayFreed(early, &large);
  Add(early, 20, "after");
  Fill(early, 100, 300, 2);
  ngx_memset(ngx_pmemalign(early, 5000, 4096), 3, 5000);
  ngx_destroy_pool(early);
}

static void ReapAnEarlierPoolIsReset(ngx_http_request_t* r) {
  (void)r;
  Add(early, 20, "after");
  const long before = ResidentKib();
  for (int round = 0; round < 300; ++round) {
    Fill(early, 200, 400, 2);
    ngx_reset_pool(early);
  }
  Say("%s:", ResidentKib() - before < 4096 ? "bounded" : "grows");
  early->cleanup->next = NULL; /* nginx's own record, in the memory that was reset */
  ngx_destroy_pool(early);
}

/* Who wants a pool's reap, as a strata::reap_resource does, asks for a block that is aligned. */
static void ReapIsFound(ngx_http_request_t* r) {
  for (size_t i = 0; i < kSizes; ++i) {
    ngx_pool_t* pool = ngx_create_pool(sizes[i], r->connection->log);
    strata_reap* reap = strata_reap_find(ngx_pmemalign(pool, 1, 16));
    if (reap == NULL) return Say("none for %zu", sizes[i]);
    void* p = strata_reap_malloc(reap, 5000);
    ngx_memset(p, 1, 5000);
    Say("%s", strata_reap_find(ngx_palloc(pool, 100)) == reap ? "ours" : "another");
    SayFreed(pool, p);
    Say("%s\n", strata_reap_size(reap, p) == 0 ? " gone" : " there");
    ngx_destroy_pool(pool);
  }
}

static const struct {
  const char* name;
  void (*run)(ngx_http_request_t* r);
} cases[] = {
    {"cleanups_run", CleanupsRun},
    {"cleanups_are_reordered", CleanupsAreReordered},
    {"files_are_closed", FilesAreClosed},
    {"memory_is_zeroed_and_aligned", MemoryIsZeroedAndAligned},
    {"containers_grow", ContainersGrow},
    {"what_is_no_block_is_declined", WhatIsNoBlockIsDeclined},
    {"an_earlier_pool_lives_on", AnEarlierPoolLivesOn},
    {"reap_reset_keeps_cleanups", ReapResetKeepsCleanups},
    {"reap_an_earlier_pool_is_reset", ReapAnEarlierPoolIsReset},
    {"reap_an_earlier_pool_has_one", ReapAnEarlierPoolHasOne},
    {"reap_a_buffer_is_mallocs", ReapABufferIsMallocs},
    {"reap_is_found", ReapIsFound},
};

static ngx_int_t Answer(ngx_http_request_t* r) {
  ngx_buf_t* text = ngx_create_temp_buf(r->pool, length + 1);
  if (text == NULL) return NGX_HTTP_INTERNAL_SERVER_ERROR;
  text->last = ngx_cpymem(text->last, transcript, length);
  text->last_buf = 1;
  r->headers_out.status = NGX_HTTP_OK;
  r->headers_out.content_length_n = (off_t)length;
  const ngx_int_t sent = ngx_http_send_header(r);
  if (sent == NGX_ERROR || sent > NGX_OK || r->header_only) return sent;
  ngx_chain_t out = {text, NULL};
  return ngx_http_output_filter(r, &out);
}

static ngx_int_t Handle(ngx_http_request_t* r) {
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); ++i) {
    const size_t size = ngx_strlen(cases[i].name);
    if (r->args.len != size || ngx_strncmp(r->args.data, cases[i].name, size) != 0) continue;
    length = 0;
    cases[i].run(r);
    return Answer(r);
  }
  return NGX_HTTP_BAD_REQUEST;
}

static char* SetHandler(ngx_conf_t* conf, ngx_command_t* command, void* settings) {
  (void)command, (void)settings;
  ngx_http_core_loc_conf_t* location =
      ngx_http_conf_get_module_loc_conf(conf, ngx_http_core_module);
  location->handler = Handle;
  return NGX_CONF_OK;
}

static ngx_core_module_t core_context = {ngx_string("pool_cases"), CreateConf, NULL};

ngx_module_t ngx_pool_cases_module = {NGX_MODULE_V1, &core_context, NULL, NGX_CORE_MODULE,
                                      NULL,          NULL,          NULL, NULL,
                                      NULL,          NULL,          NULL, NGX_MODULE_V1_PADDING};

static ngx_command_t commands[] = {
    {ngx_string("pool_case"), NGX_HTTP_LOC_CONF | NGX_CONF_NOARGS, SetHandler, 0, 0, NULL},
    ngx_null_command};

static ngx_http_module_t context = {NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL};

ngx_module_t ngx_http_pool_cases_module = {
    NGX_MODULE_V1, &context, commands, NGX_HTTP_MODULE,      NULL, NULL, NULL, NULL,
    NULL,          NULL,     NULL,     NGX_MODULE_V1_PADDING};
