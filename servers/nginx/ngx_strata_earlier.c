/* Pools that nginx had made before the module was loaded: the ones its configuration is read into.
 * They live on in nginx's layout. What is allocated from now on hangs on their list of large
 * blocks, as a block that begins with its own list entry; what lies in them stays. The `alloc` of
 * such an entry is the entry itself; a byte further when a cleanup is behind it. */
#include "ngx_strata.h"

static void* Hang(ngx_pool_t* pool, size_t size, size_t head) {
  if (size > (size_t)-1 - head) return NULL;
  ngx_pool_large_t* entry = ngx_memalign(head, head + size, pool->log);
  if (entry == NULL) return NULL;
  entry->alloc = entry;
  entry->next = pool->large;
  pool->large = entry;
  return (u_char*)entry + head;
}

static void* CleanupMark(ngx_pool_large_t* entry) { return (u_char*)entry + 1; }
static ngx_flag_t IsCleanup(ngx_pool_large_t* entry) { return entry->alloc == CleanupMark(entry); }

void* NgxStrataEarlierAllocate(ngx_pool_t* pool, size_t size, size_t alignment) {
  return Hang(pool, size, ngx_max(alignment, NGX_POOL_ALIGNMENT));
}

/* Its data is behind it. */
ngx_pool_cleanup_t* NgxStrataEarlierCleanup(ngx_pool_t* pool, size_t size) {
  const size_t whole = sizeof(ngx_pool_cleanup_t) + size;
  ngx_pool_cleanup_t* made = whole < size ? NULL : Hang(pool, whole, sizeof(ngx_pool_large_t));
  if (made == NULL) return NULL;
  pool->large->alloc = CleanupMark(pool->large);
  made->data = size != 0 ? made + 1 : NULL;
  return made;
}

/* A block of larger alignment is not found: it stays until the pool ends, as nginx allows. */
ngx_int_t NgxStrataEarlierFree(ngx_pool_t* pool, void* p) {
  for (ngx_pool_large_t** at = &pool->large; *at != NULL; at = &(*at)->next) {
    ngx_pool_large_t* entry = *at;
    if (entry->alloc == p && p != NULL) { /* nginx's: the entry lies in the pool */
      ngx_free(p);
      entry->alloc = NULL;
      return NGX_OK;
    }
    if (entry->alloc == entry && (u_char*)entry + NGX_POOL_ALIGNMENT == p) {
      *at = entry->next;
      ngx_free(entry);
      return NGX_OK;
    }
  }
  return NGX_DECLINED;
}

/* A reset keeps the cleanups. */
void NgxStrataEarlierReset(ngx_pool_t* pool) {
  ngx_pool_large_t* kept = NULL;
  for (ngx_pool_large_t *entry = pool->large, *next; entry != NULL; entry = next) {
    next = entry->next;
    if (IsCleanup(entry)) {
      entry->next = kept;
      kept = entry;
    } else if (entry->alloc != NULL) {
      ngx_free(entry->alloc);
    }
  }
  pool->large = kept;
  for (ngx_pool_t* block = pool; block != NULL; block = block->d.next) {
    block->d.last = (u_char*)block + sizeof(ngx_pool_t);
    block->d.failed = 0;
  }
  pool->current = pool;
  pool->chain = NULL;
}

void NgxStrataEarlierDestroy(ngx_pool_t* pool) {
  for (ngx_pool_large_t *entry = pool->large, *next; entry != NULL; entry = next) {
    next = entry->next;
    if (entry->alloc != NULL) ngx_free(IsCleanup(entry) ? entry : entry->alloc);
  }
  for (ngx_pool_t *block = pool, *next; block != NULL; block = next) {
    next = block->d.next;
    ngx_free(block);
  }
}
