/* mod_pool_loop: the denial-of-service case of the talk on reaps, as an Apache handler: a request
 * that allocates from its pool and frees, over and over. APR's own pools can free nothing before
 * the request ends; on reaps the memory is used again. Tests and the bench run it; servers should
 * not.
 *
 *   SetHandler pool-loop; GET /loop?n=1000000&size=400&pace=1000
 *   n objects of size bytes; pace: microseconds of sleep after every 1,000 of them */
#include <httpd.h> /* before all that needs its types */

#include <apr_strings.h>
#include <http_config.h>
#include <http_core.h>
#include <http_protocol.h>

#include "strata/apr.h"

static int Loop(request_rec* r) {
  if (r->handler == NULL || strcmp(r->handler, "pool-loop") != 0) return DECLINED;
  unsigned long n, size, pace;
  if (r->args == NULL || sscanf(r->args, "n=%lu&size=%lu&pace=%lu", &n, &size, &pace) != 3 ||
      n > 100000000 || size == 0 || size > 1000000 || pace > 1000000)
    return HTTP_BAD_REQUEST;
  unsigned long freed = 0;
  for (unsigned long i = 0; i < n; ++i) {
    void* p = apr_palloc(r->pool, size);
    memset(p, (int)i, size);
    freed += (unsigned long)strata_apr_free(r->pool, p);
    if (pace != 0 && i % 1000 == 999) apr_sleep((apr_interval_time_t)pace);
  }
  ap_set_content_type(r, "text/plain");
  ap_rprintf(r, "allocated %lu, freed %lu\n", n, freed);
  return OK;
}

static void RegisterHooks(apr_pool_t* pool) {
  (void)pool;
  ap_hook_handler(Loop, NULL, NULL, APR_HOOK_MIDDLE);
}

module AP_MODULE_DECLARE_DATA pool_loop_module = {
    STANDARD20_MODULE_STUFF, NULL, NULL, NULL, NULL, NULL, RegisterHooks};
