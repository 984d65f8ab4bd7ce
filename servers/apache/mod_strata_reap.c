/* mod_strata_reap: says in Apache's own terms what request pools cost when libstrata-apr.so has put
 * them on reaps. It moves no pool itself; without the preload it says so once and does nothing.
 *
 *   %{strata-held}n in a LogFormat     bytes that the request's pool held at its end
 *   StrataReapWarn BYTES               a request that held more gets a warning in the error log
 *   SetHandler strata-reap-status      whether pools are on reaps, as text */
#include <httpd.h> /* before all that needs its types */

#include <apr_strings.h>
#include <http_config.h>
#include <http_core.h>
#include <http_log.h>
#include <http_protocol.h>
#include <http_request.h>

#include "strata/apr.h"

module AP_MODULE_DECLARE_DATA strata_reap_module;
APLOG_USE_MODULE(strata_reap);

typedef struct {
  apr_size_t warn; /* 0: never */
} Settings;

static void* MakeSettings(apr_pool_t* pool, server_rec* server) {
  (void)server;
  return apr_pcalloc(pool, sizeof(Settings));
}

static void* MergeSettings(apr_pool_t* pool, void* above, void* below) {
  Settings* merged = apr_palloc(pool, sizeof(Settings));
  const Settings* inner = below;
  *merged = inner->warn != 0 ? *inner : *(const Settings*)above;
  return merged;
}

static const char* SetWarn(cmd_parms* command, void* unused, const char* text) {
  (void)unused;
  char* end;
  apr_off_t bytes;
  if (apr_strtoff(&bytes, text, &end, 10) != APR_SUCCESS || *end != '\0' || bytes <= 0)
    return "StrataReapWarn takes a number of bytes above 0";
  Settings* settings = ap_get_module_config(command->server->module_config, &strata_reap_module);
  settings->warn = (apr_size_t)bytes;
  return NULL;
}

static int SayOnce(apr_pool_t* pool, apr_pool_t* log, apr_pool_t* temporary, server_rec* server) {
  (void)pool, (void)log, (void)temporary;
  if (ap_state_query(AP_SQ_MAIN_STATE) == AP_SQ_MS_CREATE_PRE_CONFIG) return OK;
  if (strata_apr_active()) {
    ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, server, "Strata: pools are on reaps");
  } else {
    ap_log_error(APLOG_MARK, APLOG_WARNING, 0, server,
                 "Strata: pools are APR's own; preload libstrata-apr.so to put them on reaps");
  }
  return OK;
}

static int NoteHeld(request_rec* r) {
  if (!strata_apr_active()) return DECLINED;
  const Settings* settings = ap_get_module_config(r->server->module_config, &strata_reap_module);
  const apr_size_t held = strata_apr_pool_held(r->pool);
  apr_table_setn(r->notes, "strata-held", apr_psprintf(r->pool, "%" APR_SIZE_T_FMT, held));
  if (settings->warn != 0 && held > settings->warn)
    ap_log_rerror(APLOG_MARK, APLOG_WARNING, 0, r,
                  "Strata: the pool of this request holds %" APR_SIZE_T_FMT " bytes", held);
  return DECLINED;
}

static int ShowStatus(request_rec* r) {
  if (r->handler == NULL || strcmp(r->handler, "strata-reap-status") != 0) return DECLINED;
  ap_set_content_type(r, "text/plain");
  ap_rprintf(r, "pools on reaps: %s\n", strata_apr_active() ? "yes" : "no");
  if (strata_apr_active())
    ap_rprintf(r, "held by this request: %" APR_SIZE_T_FMT "\n", strata_apr_pool_held(r->pool));
  return OK;
}

static const command_rec commands[] = {
    AP_INIT_TAKE1("StrataReapWarn", SetWarn, NULL, RSRC_CONF,
                  "bytes above which a request's pool is worth a line in the error log"),
    {NULL}};

static void RegisterHooks(apr_pool_t* pool) {
  (void)pool;
  ap_hook_post_config(SayOnce, NULL, NULL, APR_HOOK_MIDDLE);
  ap_hook_log_transaction(NoteHeld, NULL, NULL, APR_HOOK_FIRST); /* before the access log */
  ap_hook_handler(ShowStatus, NULL, NULL, APR_HOOK_MIDDLE);
}

module AP_MODULE_DECLARE_DATA strata_reap_module = {
    STANDARD20_MODULE_STUFF, NULL, NULL, MakeSettings, MergeSettings, commands, RegisterHooks};
