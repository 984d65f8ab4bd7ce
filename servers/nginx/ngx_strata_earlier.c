/* Pools that nginx had made before the module was loaded: the ones its configuration is read into.
 * They live on in nginx's layout, and what lies in them stays. What is allocated from now on lies
 * in a reap of the pool's, close together: workers share it. The reap and cleanups hang on the
 * pool's list of large blocks, the reap first, each as a block that begins with its own list entry.
 * The `alloc` of such an entry is the entry itself; a byte further for a cleanup, two for the reap.
 */
#include "ngx_strata.h"

typedef struct {
  ngx_pool_large_t entry;
  strata_reap* reap;
} Hung;

static ngx_flag_t HasMark(const ngx_pool_large_t* entry, size_t mark) {
  return entry->alloc == (u_char*)entry + mark;
}
enum { kBlock, kCleanup, kReap };

/* Behind `at`; the first where that is null. */
static void* Hang(ngx_pool_t* pool, ngx_pool_large_t* at, size_t size, size_t mark) {
  ngx_pool_large_t* entry = ngx_alloc(size, pool->log);
  if (entry == NULL) return NULL;
  entry->alloc = (u_char*)entry + mark;
  ngx_pool_large_t** link = at == NULL ? &pool->large : &at->next;
  entry->next = *link;
  *link = entry;
  return entry;
}

static ngx_pool_large_t* ReapEntry(ngx_pool_t* pool) {
  return pool->large != NULL && HasMark(pool->large, kReap) ? pool->large : NULL;
}
static strata_reap* ReapOf(ngx_pool_t* pool) {
  ngx_pool_large_t* entry = ReapEntry(pool);
  return entry == NULL ? NULL : ((Hung*)entry)->reap;
}

static strata_reap* MakeReap(ngx_pool_t* pool) {
  strata_reap* reap = strata_reap_create(NULL);
  if (reap == NULL) return NULL;
  Hung* hung = Hang(pool, NULL, sizeof(Hung), kReap);
  if (hung == NULL) {
    strata_reap_destroy(reap);
    return NULL;
  }
  hung->reap = reap;
  return reap;
}

void* NgxStrataEarlierAllocate(ngx_pool_t* pool, size_t size, size_t alignment) {
  strata_reap* reap = ReapOf(pool);
  if (reap == NULL && (reap = MakeReap(pool)) == NULL) return NULL;
  return strata_reap_memalign(reap, ngx_max(alignment, NGX_POOL_ALIGNMENT), size);
}

/* A block of malloc's. */
void* NgxStrataHang(ngx_pool_t* pool, size_t size) {
  if (size > NGX_MAX_SIZE_T_VALUE - sizeof(ngx_pool_large_t)) return NULL;
  ngx_pool_large_t* entry = Hang(pool, NULL, sizeof(*entry) + size, kBlock);
  return entry == NULL ? NULL : entry + 1;
}

/* Its data is behind it. */
ngx_pool_cleanup_t* NgxStrataEarlierCleanup(ngx_pool_t* pool, size_t size) {
  const size_t head = sizeof(ngx_pool_large_t) + sizeof(ngx_pool_cleanup_t);
  if (size > NGX_MAX_SIZE_T_VALUE - head) return NULL;
  ngx_pool_large_t* entry = Hang(pool, ReapEntry(pool), head + size, kCleanup);
  if (entry == NULL) return NULL;
  ngx_pool_cleanup_t* made = (ngx_pool_cleanup_t*)(entry + 1);
  made->data = size != 0 ? made + 1 : NULL;
  return made;
}
static ngx_flag_t IsCleanup(ngx_pool_large_t* entry) { return HasMark(entry, kCleanup); }

ngx_int_t NgxStrataEarlierFree(ngx_pool_t* pool, void* p) {
  strata_reap* reap = ReapOf(pool);
  if (reap != NULL && strata_reap_size(reap, p) != 0) {
    strata_reap_free(reap, p);
    return NGX_OK;
  }
  return NgxStrataUnhang(pool, p);
}

ngx_int_t NgxStrataUnhang(ngx_pool_t* pool, void* p) {
  for (ngx_pool_large_t** at = &pool->large; *at != NULL; at = &(*at)->next) {
    ngx_pool_large_t* entry = *at;
    if (entry->alloc == p && p != NULL) { /* nginx's: the entry lies in the pool */
      ngx_free(p);
      entry->alloc = NULL;
      return NGX_OK;
    }
    if (HasMark(entry, kBlock) && entry + 1 == p) {
      *at = entry->next;
      ngx_free(entry);
      return NGX_OK;
    }
  }
  return NGX_DECLINED;
}

void NgxStrataUnhangAll(ngx_pool_t* pool) {
  for (ngx_pool_large_t *entry = pool->large, *next; entry != NULL; entry = next) {
    next = entry->next;
    ngx_free(entry);
  }
  pool->large = NULL;
}

/* A reset keeps the cleanups, and the reap. */
void NgxStrataEarlierReset(ngx_pool_t* pool) {
  ngx_pool_large_t *kept = NULL, *reap = ReapEntry(pool);
  ngx_pool_large_t* entry = reap == NULL ? pool->large : reap->next;
  for (ngx_pool_large_t* next; entry != NULL; entry = next) {
    next = entry->next;
    if (IsCleanup(entry)) {
      entry->next = kept;
      kept = entry;
    } else if (entry->alloc != NULL) {
      ngx_free(entry->alloc);
    }
  }
  if (reap == NULL) {
    pool->large = kept;
  } else {
    reap->next = kept;
    strata_reap_clear(((Hung*)reap)->reap);
  }
  for (ngx_pool_t* block = pool; block != NULL; block = block->d.next) {
    block->d.last = (u_char*)block + sizeof(ngx_pool_t);
    block->d.failed = 0;
  }
  pool->current = pool;
  pool->chain = NULL;
}

void NgxStrataEarlierDestroy(ngx_pool_t* pool) {
  strata_reap* reap = ReapOf(pool);
  for (ngx_pool_large_t *entry = pool->large, *next; entry != NULL; entry = next) {
    next = entry->next;
    if (HasMark(entry, kCleanup) || HasMark(entry, kReap))
      ngx_free(entry);
    else if (entry->alloc != NULL)
      ngx_free(entry->alloc);
  }
  if (reap != NULL) strata_reap_destroy(reap);
  for (ngx_pool_t *block = pool, *next; block != NULL; block = next) {
    next = block->d.next;
    ngx_free(block);
  }
}
