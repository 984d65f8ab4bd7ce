/* ngx_strata_module: loading it puts nginx's pools on reaps (docs/servers.md).
 *
 *   load_module modules/ngx_strata_module.so;  first in nginx.conf, libstrata.so preloaded
 *   $strata_held                               for log_format: what the request's pool holds
 *
 * ngx_pfree then frees every block of a pool, not only large ones. */
#include <ngx_http.h>

#include "ngx_strata.h"

static const NgxStrataRedirection redirections[] = {
    {"ngx_create_pool", (void*)ngx_create_pool, (void*)NgxStrataCreatePool},
    {"ngx_destroy_pool", (void*)ngx_destroy_pool, (void*)NgxStrataDestroyPool},
    {"ngx_reset_pool", (void*)ngx_reset_pool, (void*)NgxStrataResetPool},
    {"ngx_palloc", (void*)ngx_palloc, (void*)NgxStrataPalloc},
    {"ngx_pnalloc", (void*)ngx_pnalloc, (void*)NgxStrataPalloc},
    {"ngx_pcalloc", (void*)ngx_pcalloc, (void*)NgxStrataPcalloc},
    {"ngx_pmemalign", (void*)ngx_pmemalign, (void*)NgxStrataPmemalign},
    {"ngx_pfree", (void*)ngx_pfree, (void*)NgxStrataPfree},
    {"ngx_pool_cleanup_add", (void*)ngx_pool_cleanup_add, (void*)NgxStrataPoolCleanupAdd},
};

static ngx_int_t TakeOver(ngx_log_t* log) {
  static ngx_flag_t done;
  if (done) return NGX_OK; /* by an earlier reading of the configuration */
  if (strata_reap_create == NULL) {
    ngx_log_error(NGX_LOG_EMERG, log, 0,
                  "strata: ngx_strata_module needs libstrata.so preloaded (LD_PRELOAD)");
    return NGX_ERROR;
  }
  if (&strata_reap_layout_1 == NULL) {
    ngx_log_error(NGX_LOG_EMERG, log, 0,
                  "strata: ngx_strata_module was built for reaps of another libstrata.so");
    return NGX_ERROR;
  }
  if (NgxStrataRedirect(redirections, sizeof(redirections) / sizeof(*redirections), log) != NGX_OK)
    return NGX_ERROR;
  done = 1;
  return NGX_OK;
}

/* nginx calls this as soon as it has checked that the module was built for it. */
static void* CreateConf(ngx_cycle_t* cycle) {
  static ngx_flag_t settings;
  return TakeOver(cycle->log) == NGX_OK ? &settings : NULL;
}

static ngx_core_module_t core_context = {ngx_string("strata"), CreateConf, NULL};

ngx_module_t ngx_strata_module = {NGX_MODULE_V1, &core_context, NULL, NGX_CORE_MODULE,
                                  NULL,          NULL,          NULL, NULL,
                                  NULL,          NULL,          NULL, NGX_MODULE_V1_PADDING};

static ngx_int_t GetHeld(ngx_http_request_t* r, ngx_http_variable_value_t* value, uintptr_t data) {
  (void)data;
  value->data = ngx_pnalloc(r->pool, NGX_SIZE_T_LEN);
  if (value->data == NULL) {
    value->not_found = 1;
    return NGX_OK;
  }
  value->len = ngx_sprintf(value->data, "%uz", NgxStrataHeldBy(r->pool)) - value->data;
  value->valid = 1;
  value->no_cacheable = 1;
  value->not_found = 0;
  return NGX_OK;
}

static ngx_int_t AddVariables(ngx_conf_t* conf) {
  ngx_str_t name = ngx_string("strata_held");
  ngx_http_variable_t* variable = ngx_http_add_variable(conf, &name, NGX_HTTP_VAR_NOCACHEABLE);
  if (variable == NULL) return NGX_ERROR;
  variable->get_handler = GetHeld;
  return NGX_OK;
}

static ngx_http_module_t http_context = {AddVariables, NULL, NULL, NULL, NULL, NULL, NULL, NULL};

ngx_module_t ngx_http_strata_module = {NGX_MODULE_V1, &http_context, NULL, NGX_HTTP_MODULE,
                                       NULL,          NULL,          NULL, NULL,
                                       NULL,          NULL,          NULL, NGX_MODULE_V1_PADDING};
