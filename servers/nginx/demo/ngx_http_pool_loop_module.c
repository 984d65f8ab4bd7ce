/* ngx_http_pool_loop_module: the denial-of-service case of the talk on reaps, as an nginx handler:
 * a request that allocates from its pool and frees, over and over, with nginx's own functions. Its
 * ngx_pfree frees large blocks only; on reaps every block is used again. Tests and the bench run
 * it; servers should not.
 *
 *   location /loop { pool_loop; }   GET /loop?n=1000000&size=400&pace=1000
 *   n objects of size bytes; pace: microseconds of sleep after every 1,000 of them */
#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include <stdio.h>

static ngx_int_t Answer(ngx_http_request_t* r, ngx_buf_t* text) {
  r->headers_out.status = NGX_HTTP_OK;
  r->headers_out.content_length_n = text->last - text->pos;
  ngx_str_set(&r->headers_out.content_type, "text/plain");
  const ngx_int_t sent = ngx_http_send_header(r);
  if (sent == NGX_ERROR || sent > NGX_OK || r->header_only) return sent;
  ngx_chain_t out = {text, NULL};
  return ngx_http_output_filter(r, &out);
}

static ngx_int_t Loop(ngx_http_request_t* r) {
  char arguments[128];
  unsigned long n, size, pace, freed = 0;
  ngx_cpystrn((u_char*)arguments, r->args.data, ngx_min(r->args.len + 1, sizeof(arguments)));
  if (r->args.len == 0 || sscanf(arguments, "n=%lu&size=%lu&pace=%lu", &n, &size, &pace) != 3 ||
      n > 100000000 || size == 0 || size > 1000000 || pace > 1000000)
    return NGX_HTTP_BAD_REQUEST;
  for (unsigned long i = 0; i < n; ++i) {
    void* p = ngx_palloc(r->pool, size);
    if (p == NULL) return NGX_HTTP_INTERNAL_SERVER_ERROR;
    ngx_memset(p, (int)i, size);
    freed += ngx_pfree(r->pool, p) == NGX_OK;
    if (pace != 0 && i % 1000 == 999) usleep((useconds_t)pace);
  }
  ngx_buf_t* text = ngx_create_temp_buf(r->pool, 100);
  if (text == NULL) return NGX_HTTP_INTERNAL_SERVER_ERROR;
  text->last = ngx_sprintf(text->last, "allocated %ul, freed %ul\n", n, freed);
  text->last_buf = 1;
  return Answer(r, text);
}

static char* SetHandler(ngx_conf_t* conf, ngx_command_t* command, void* settings) {
  (void)command, (void)settings;
  ngx_http_core_loc_conf_t* location =
      ngx_http_conf_get_module_loc_conf(conf, ngx_http_core_module);
  location->handler = Loop;
  return NGX_CONF_OK;
}

static ngx_command_t commands[] = {
    {ngx_string("pool_loop"), NGX_HTTP_LOC_CONF | NGX_CONF_NOARGS, SetHandler, 0, 0, NULL},
    ngx_null_command};

static ngx_http_module_t context = {NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL};

ngx_module_t ngx_http_pool_loop_module = {NGX_MODULE_V1, &context, commands, NGX_HTTP_MODULE,
                                          NULL,          NULL,     NULL,     NULL,
                                          NULL,          NULL,     NULL,     NGX_MODULE_V1_PADDING};
