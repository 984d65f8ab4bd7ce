// Allocation from a pool, printing into it, and what Strata adds: freeing single objects
// (strata/apr.h). The names that end in _debug are those that programs built with APR_POOL_DEBUG
// call; APR's own library, built without it, forwards them, too.
#include <apr_lib.h>
#include <apr_strings.h>
#include <stdarg.h>
#include <string.h>

#include <algorithm>

#include "pool.h"
#include "strata/apr.h"

#undef apr_pcalloc  // a macro over apr_palloc

namespace strata::apr {

// A null reap is that of a pool that was destroyed: the reap's own call says so.
void* AllocateSlow(apr_pool_t* pool, size_t size) {
  void* p = strata_reap_malloc(pool->reap, size);
  if (p == nullptr && pool->abort != nullptr) pool->abort(APR_ENOMEM);
  return p;
}

namespace {

// Text of unknown length: into a buffer on the stack, and when that is full into a block of the
// reap that doubles; at the newest end of the reap it grows where it lies.
struct Printer : apr_vformatter_buff_t {
  apr_pool_t* pool;
  char* block = nullptr;
  size_t bytes = 0;
  char local[512];

  explicit Printer(apr_pool_t* into) : pool(into) {
    curpos = local;
    endpos = local + sizeof(local);
  }

  static int Flush(apr_vformatter_buff_t* buffer) {
    return static_cast<Printer*>(buffer)->Grow() ? 0 : -1;
  }

  bool Grow() {
    const size_t length = static_cast<size_t>(curpos - Start());
    const size_t wanted = 2 * std::max(sizeof(local), bytes);
    auto* larger = static_cast<char*>(strata_reap_realloc(pool->reap, block, wanted));
    if (larger == nullptr) return false;
    if (block == nullptr) memcpy(larger, local, length);
    block = larger;
    bytes = wanted;
    curpos = block + length;
    endpos = block + bytes;
    return true;
  }

  char* Finish() {
    if (curpos == endpos && !Grow()) return Fail();
    *curpos = '\0';
    const size_t length = static_cast<size_t>(curpos - Start()) + 1;
    if (block != nullptr) {
      // To less: where that fails the text stays where it is.
      void* less = strata_reap_realloc(pool->reap, block, length);
      return less == nullptr ? block : static_cast<char*>(less);
    }
    auto* text = static_cast<char*>(Allocate(pool, length));
    return text == nullptr ? nullptr : static_cast<char*>(memcpy(text, local, length));
  }

  char* Fail() {
    strata_reap_free(pool->reap, block);
    if (pool->abort != nullptr) pool->abort(APR_ENOMEM);
    return nullptr;
  }

  const char* Start() const { return block != nullptr ? block : local; }
};

}  // namespace
}  // namespace strata::apr

STRATA_APR_EXPORT void* apr_palloc(apr_pool_t* pool, apr_size_t size) {
  return strata::apr::Allocate(pool, size);
}

STRATA_APR_EXPORT void* apr_pcalloc(apr_pool_t* pool, apr_size_t size) {
  void* p = strata::apr::Allocate(pool, size);
  return p == nullptr ? nullptr : memset(p, 0, size);
}

STRATA_APR_EXPORT char* apr_pvsprintf(apr_pool_t* pool, const char* format, va_list arguments) {
  strata::apr::Printer printer(pool);
  if (apr_vformatter(strata::apr::Printer::Flush, &printer, format, arguments) == -1)
    return printer.Fail();
  return printer.Finish();
}

STRATA_APR_EXPORT char* apr_psprintf(apr_pool_t* pool, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char* text = apr_pvsprintf(pool, format, arguments);
  va_end(arguments);
  return text;
}

// --- strata/apr.h

STRATA_APR_EXPORT strata_reap* strata_apr_pool_reap(apr_pool_t* pool) { return pool->reap; }

STRATA_APR_EXPORT void strata_apr_pool_free(apr_pool_t* pool, void* p) {
  strata_reap_free(pool->reap, p);
}

STRATA_APR_EXPORT apr_size_t strata_apr_pool_held(apr_pool_t* pool) {
  return strata_reap_held(pool->reap);
}

// --- For callers built with APR_POOL_DEBUG

STRATA_APR_EXPORT void* apr_palloc_debug(apr_pool_t* pool, apr_size_t size, const char*) {
  return apr_palloc(pool, size);
}
STRATA_APR_EXPORT void* apr_pcalloc_debug(apr_pool_t* pool, apr_size_t size, const char*) {
  return apr_pcalloc(pool, size);
}
STRATA_APR_EXPORT void apr_pool_clear_debug(apr_pool_t* pool, const char*) { apr_pool_clear(pool); }
STRATA_APR_EXPORT void apr_pool_destroy_debug(apr_pool_t* pool, const char*) {
  apr_pool_destroy(pool);
}
STRATA_APR_EXPORT apr_status_t apr_pool_create_ex_debug(apr_pool_t** newpool, apr_pool_t* parent,
                                                        apr_abortfunc_t abort_fn,
                                                        apr_allocator_t* allocator, const char*) {
  return apr_pool_create_ex(newpool, parent, abort_fn, allocator);
}
STRATA_APR_EXPORT apr_status_t apr_pool_create_core_ex_debug(apr_pool_t** newpool,
                                                             apr_abortfunc_t abort_fn,
                                                             apr_allocator_t* allocator,
                                                             const char*) {
  return apr_pool_create_unmanaged_ex(newpool, abort_fn, allocator);
}
STRATA_APR_EXPORT apr_status_t apr_pool_create_unmanaged_ex_debug(apr_pool_t** newpool,
                                                                  apr_abortfunc_t abort_fn,
                                                                  apr_allocator_t* allocator,
                                                                  const char*) {
  return apr_pool_create_unmanaged_ex(newpool, abort_fn, allocator);
}
