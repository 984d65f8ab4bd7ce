/* What libstrata-apr.so adds to APR's pools, for modules and programs that use them: when it is
 * preloaded, every apr_pool_t lies on a reap (strata/reap.h), so single objects can be freed.
 *
 * The references are weak. A module that includes this needs no library of Strata: without the
 * preload, strata_apr_free does nothing and tells so, as a pool of APR's own can free nothing. */
#ifndef STRATA_APR_H_
#define STRATA_APR_H_

#include <apr_pools.h>

#include "strata/reap.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The pool's reap, for the functions of strata/reap.h (link with -lstrata). Whoever clears or
 * destroys it in place of the pool breaks the pool. */
strata_reap* strata_apr_pool_reap(apr_pool_t* pool) __attribute__((weak));
/* Frees what apr_palloc gave from this pool. Misuse: as strata_reap_free. */
void strata_apr_pool_free(apr_pool_t* pool, void* p) __attribute__((weak));
/* The bytes that the pool's reap holds. */
apr_size_t strata_apr_pool_held(apr_pool_t* pool) __attribute__((weak));

/* Whether pools are on reaps in this process. */
static inline int strata_apr_active(void) { return strata_apr_pool_free != NULL; }

/* 1; or 0 when pools are not on reaps and p stays until its pool ends. */
static inline int strata_apr_free(apr_pool_t* pool, void* p) {
  if (!strata_apr_active()) return 0;
  strata_apr_pool_free(pool, p);
  return 1;
}

#ifdef __cplusplus
}
#endif

#endif /* STRATA_APR_H_ */
