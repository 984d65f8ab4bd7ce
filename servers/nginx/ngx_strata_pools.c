/* nginx's pools on reaps. A pool's record is nginx's own struct, since nginx reads some of its
 * fields, with ours behind it; `current`, which only nginx's allocator uses and never leaves null,
 * is null and marks it. `d.last` and `d.end` are null too, so ngx_array, which compares with them
 * to grow in place, allocates anew instead.
 *
 * A request's reap is cleared and kept for the next request, with its first chunk, as long as it is
 * small; that spares nginx's one thread most of what a pool costs.
 *
 * A pool of less than a page is one of an idle connection, of which there may be very many. It has
 * the bytes that nginx gives it, next to its record, and makes its reap when they are used up. Its
 * first few large blocks, such as a buffer, are malloc's, as nginx's are: a reap has 8 KiB at
 * least.
 *
 * Cleanups lie next to the record of a larger pool, where most requests' few fit, or in blocks of
 * their own: a reset empties the pool and keeps them, to be run at its end. nginx's own reset keeps
 * them, too, but in memory that it hands out again. */
#include <malloc.h>

#include "ngx_strata.h"

typedef struct Registered Registered;
/* Its data is behind it. */
struct Registered {
  Registered* next; /* ours; modules reorder what the cleanup's own link makes */
  ngx_pool_cleanup_t cleanup;
};

typedef struct {
  ngx_pool_t base;
  strata_reap* reap; /* null in a small pool until it is needed */
  /* The rest of the bytes next to this record: in a small pool for blocks while it has no reap, in
   * a larger one for cleanups. */
  u_char* at;
  u_char* end;
  Registered* registered; /* cleanups in blocks of their own */
  ngx_flag_t small;
  ngx_uint_t hung; /* how many blocks of malloc's it has, on base.large */
} ReapPool;

enum {
  kSmallPool = 4096,
  kCleanupBytes = 128,
  kMostHung = 4,
  kMostSpares = 32,
  kSpareBytes = 16 << 10
};

static strata_reap* spares[kMostSpares];
static ngx_uint_t spare_count;

static strata_reap* TakeReap(void) {
  return spare_count != 0 ? spares[--spare_count] : strata_reap_create(NULL);
}

static void GiveReap(strata_reap* reap) {
  if (reap == NULL) return;
  if (spare_count == kMostSpares || strata_reap_held(reap) > kSpareBytes) {
    strata_reap_destroy(reap);
    return;
  }
  strata_reap_clear(reap);
  spares[spare_count++] = reap;
}

static ReapPool* OnReap(ngx_pool_t* pool) { return pool->current == NULL ? (ReapPool*)pool : NULL; }

size_t NgxStrataHeldBy(ngx_pool_t* pool) {
  const ReapPool* own = OnReap(pool);
  if (own == NULL) return 0;
  size_t held = (size_t)(own->end - (u_char*)(own + 1));
  for (ngx_pool_large_t* hung = pool->large; hung != NULL; hung = hung->next)
    held += malloc_usable_size(hung);
  return own->reap == NULL ? held : held + strata_reap_held(own->reap);
}

/* A pool that may have no reap: null with the failure logged. */
static strata_reap* ReapOf(ReapPool* pool) {
  if (pool->reap == NULL && (pool->reap = TakeReap()) == NULL)
    ngx_log_error(NGX_LOG_EMERG, pool->base.log, ngx_errno, "strata: no memory for a reap");
  return pool->reap;
}

ngx_pool_t* NgxStrataCreatePool(size_t size, ngx_log_t* log) {
  const ngx_flag_t small = size < kSmallPool;
  const size_t whole = small ? ngx_max(size, sizeof(ReapPool)) : sizeof(ReapPool) + kCleanupBytes;
  ReapPool* pool = ngx_alloc(whole, log);
  if (pool == NULL) return NULL;
  ngx_memzero(pool, sizeof(ReapPool));
  pool->small = small;
  pool->at = (u_char*)(pool + 1);
  pool->end = (u_char*)pool + whole;
  size = size > sizeof(ngx_pool_t) ? size - sizeof(ngx_pool_t) : 0;
  pool->base.max = ngx_min(size, NGX_MAX_ALLOC_FROM_POOL);
  pool->base.log = log;
  if (!small && ReapOf(pool) == NULL) {
    ngx_free(pool);
    return NULL;
  }
  return &pool->base;
}

void NgxStrataDestroyPool(ngx_pool_t* pool) {
  for (ngx_pool_cleanup_t* c = pool->cleanup; c != NULL; c = c->next) {
    if (c->handler != NULL) c->handler(c->data);
  }
  ReapPool* own = OnReap(pool);
  if (own == NULL) {
    NgxStrataEarlierDestroy(pool);
    return;
  }
  for (Registered *r = own->registered, *next; r != NULL; r = next) {
    next = r->next;
    ngx_free(r);
  }
  NgxStrataUnhangAll(pool);
  GiveReap(own->reap);
  ngx_free(own);
}

void NgxStrataResetPool(ngx_pool_t* pool) {
  ReapPool* own = OnReap(pool);
  if (own == NULL) {
    NgxStrataEarlierReset(pool);
    return;
  }
  pool->chain = NULL;
  if (own->small) own->at = (u_char*)(own + 1);
  NgxStrataUnhangAll(pool);
  own->hung = 0;
  if (own->reap != NULL) strata_reap_clear(own->reap);
}

static void* TakeNear(ReapPool* pool, size_t size) {
  u_char* p = ngx_align_ptr(pool->at, NGX_POOL_ALIGNMENT);
  if (p > pool->end || (size_t)(pool->end - p) < size) return NULL;
  pool->at = p + size;
  return p;
}

static void* OrLog(void* p, ngx_pool_t* pool, size_t size) {
  if (p == NULL)
    ngx_log_error(NGX_LOG_EMERG, pool->log, ngx_errno, "strata: no memory for %uz bytes", size);
  return p;
}

static void* TakeEarlier(ngx_pool_t* pool, size_t size, size_t alignment) {
  return OrLog(NgxStrataEarlierAllocate(pool, size, alignment), pool, size);
}

static void* TakeSlow(ngx_pool_t* pool, size_t size) {
  ReapPool* own = OnReap(pool);
  if (own == NULL) return TakeEarlier(pool, size, NGX_POOL_ALIGNMENT);
  if (own->reap == NULL) {
    void* p = TakeNear(own, size);
    if (p != NULL) return p;
    if (own->small && own->hung < kMostHung && size > pool->max) {
      p = NgxStrataHang(pool, size);
      own->hung += p != NULL;
      return p;
    }
  }
  strata_reap* reap = ReapOf(own);
  return reap == NULL ? NULL : OrLog(strata_reap_malloc(reap, size), pool, size);
}

static ngx_inline void* Take(ngx_pool_t* pool, size_t size) {
  const ReapPool* own = OnReap(pool);
  if (own != NULL && own->reap != NULL) {
    void* p = strata_reap_malloc_window(own->reap, size);
    if (p != NULL) return p;
  }
  return TakeSlow(pool, size);
}

void* NgxStrataPalloc(ngx_pool_t* pool, size_t size) { return Take(pool, size); }

void* NgxStrataPcalloc(ngx_pool_t* pool, size_t size) {
  void* p = Take(pool, size);
  if (p != NULL) ngx_memzero(p, size);
  return p;
}

void* NgxStrataPmemalign(ngx_pool_t* pool, size_t size, size_t alignment) {
  ReapPool* own = OnReap(pool);
  if (own == NULL) return TakeEarlier(pool, size, alignment);
  strata_reap* reap = ReapOf(own);
  return reap == NULL ? NULL : OrLog(strata_reap_memalign(reap, alignment, size), pool, size);
}

/* nginx's own frees large blocks only and answers NGX_DECLINED to all else, which its callers take
 * as no mistake; so nor is it here. */
ngx_int_t NgxStrataPfree(ngx_pool_t* pool, void* p) {
  ReapPool* own = OnReap(pool);
  if (own == NULL) return NgxStrataEarlierFree(pool, p);
  if (own->hung != 0 && NgxStrataUnhang(pool, p) == NGX_OK) {
    own->hung--;
    return NGX_OK;
  }
  if (own->reap == NULL || strata_reap_size(own->reap, p) == 0) return NGX_DECLINED;
  strata_reap_free(own->reap, p);
  return NGX_OK;
}

/* The record, and behind it the data. */
static ngx_pool_cleanup_t* Register(ReapPool* pool, size_t size) {
  if (size > NGX_MAX_SIZE_T_VALUE - sizeof(Registered)) return NULL;
  const size_t whole = sizeof(Registered) + size;
  Registered* made = pool->small ? NULL : TakeNear(pool, whole);
  if (made == NULL) {
    made = ngx_alloc(whole, pool->base.log);
    if (made == NULL) return NULL;
    made->next = pool->registered;
    pool->registered = made;
  }
  made->cleanup.data = size != 0 ? made + 1 : NULL;
  return &made->cleanup;
}

ngx_pool_cleanup_t* NgxStrataPoolCleanupAdd(ngx_pool_t* pool, size_t size) {
  ReapPool* own = OnReap(pool);
  ngx_pool_cleanup_t* made =
      own != NULL ? Register(own, size) : NgxStrataEarlierCleanup(pool, size);
  if (made == NULL) return NULL;
  made->handler = NULL;
  made->next = pool->cleanup;
  pool->cleanup = made;
  return made;
}
