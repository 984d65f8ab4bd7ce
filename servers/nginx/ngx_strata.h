/* What the parts of ngx_strata_module share: nginx's pool functions as this module has them, and
 * how they are put in place. nginx calls its own functions directly, so no preload can replace
 * them; the module redirects them in memory instead. Sits in servers/nginx, over strata/reap.h
 * (reaps: Berger, Zorn and McKinley, OOPSLA 2002). */
#ifndef NGX_STRATA_H_
#define NGX_STRATA_H_

#include <ngx_config.h>
#include <ngx_core.h>

#include "strata/reap.h"

/* So that nginx loads the module without libstrata.so, too, and it can say what is missing. */
#pragma weak strata_reap_create
#pragma weak strata_reap_clear
#pragma weak strata_reap_destroy
#pragma weak strata_reap_free
#pragma weak strata_reap_held
#pragma weak strata_reap_layout_1
#pragma weak strata_reap_malloc
#pragma weak strata_reap_memalign
#pragma weak strata_reap_size

/* --- ngx_strata_pools.c: stands for the function of the same name without Strata. Each handles
 * both kinds of pools: those on reaps, and those that nginx made before the module was loaded. */
ngx_pool_t* NgxStrataCreatePool(size_t size, ngx_log_t* log);
void NgxStrataDestroyPool(ngx_pool_t* pool);
void NgxStrataResetPool(ngx_pool_t* pool);
void* NgxStrataPalloc(ngx_pool_t* pool, size_t size);
void* NgxStrataPcalloc(ngx_pool_t* pool, size_t size);
void* NgxStrataPmemalign(ngx_pool_t* pool, size_t size, size_t alignment);
ngx_int_t NgxStrataPfree(ngx_pool_t* pool, void* p);
ngx_pool_cleanup_t* NgxStrataPoolCleanupAdd(ngx_pool_t* pool, size_t size);

/* The bytes that the pool holds for its blocks; 0 for a pool of nginx's own. */
size_t NgxStrataHeldBy(ngx_pool_t* pool);

/* --- ngx_strata_earlier.c: for pools of nginx's own. */
void* NgxStrataEarlierAllocate(ngx_pool_t* pool, size_t size, size_t alignment);
ngx_pool_cleanup_t* NgxStrataEarlierCleanup(ngx_pool_t* pool, size_t size); /* not yet linked */
ngx_int_t NgxStrataEarlierFree(ngx_pool_t* pool, void* p);
void NgxStrataEarlierReset(ngx_pool_t* pool);
void NgxStrataEarlierDestroy(ngx_pool_t* pool);
/* Blocks of malloc's on the list of large blocks of any pool; the last, where there are no others.
 */
void* NgxStrataHang(ngx_pool_t* pool, size_t size);
ngx_int_t NgxStrataUnhang(ngx_pool_t* pool, void* p);
void NgxStrataUnhangAll(ngx_pool_t* pool);

/* --- ngx_strata_redirect.c */
typedef struct {
  const char* name;
  void* from;
  void* to;
} NgxStrataRedirection;

/* Makes each `from` jump to its `to`, or changes nothing, logs why and returns NGX_ERROR. */
ngx_int_t NgxStrataRedirect(const NgxStrataRedirection* redirections, size_t count, ngx_log_t* log);

#endif /* NGX_STRATA_H_ */
