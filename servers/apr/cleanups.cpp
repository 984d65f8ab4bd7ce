// Cleanups, the processes a pool waits for, and user data: what hangs on a pool besides memory. A
// cleanup that is killed gives its record back to the reap, so a long-lived pool that registers and
// kills them stays small.
#include <apr_hash.h>
#include <apr_strings.h>
#include <signal.h>

#include <utility>

#include "pool.h"

namespace strata::apr {
namespace {

void Register(apr_pool_t* pool, Cleanup* apr_pool_t::* list, const void* data, CleanupFunction run,
              CleanupFunction run_in_child) {
  if (pool == nullptr) return;
  auto* made = New<Cleanup>(pool);
  if (made == nullptr) return;
  *made = {pool->*list, data, run, run_in_child};
  pool->*list = made;
}

// The link to the newest that matches; to the end's null when none does.
Cleanup** Find(Cleanup** at, const void* data, CleanupFunction run) {
  while (*at != nullptr && ((*at)->data != data || (*at)->run != run)) at = &(*at)->next;
  return at;
}

void Kill(apr_pool_t* pool, Cleanup* apr_pool_t::* list, const void* data, CleanupFunction run) {
  Cleanup** at = Find(&(pool->*list), data, run);
  Cleanup* gone = *at;
  if (gone == nullptr) return;
  *at = gone->next;
  strata_reap_free(pool->reap, gone);
}

bool Ended(const Subprocess* s) {
  return apr_proc_wait(s->process, nullptr, nullptr, APR_NOWAIT) != APR_CHILD_NOTDONE;
}

bool TimesOut(const Subprocess* s) {
  return s->how == APR_KILL_AFTER_TIMEOUT || s->how == APR_KILL_ONLY_ONCE;
}

// Gives those that were asked to end three seconds for it. One that ended has been waited for, and
// its id may be another's from then on: nothing is sent to it any more.
void AwaitTimeouts(Subprocess* first) {
  constexpr apr_interval_time_t kFirst = 46875, kLimit = kFirst << 6;
  for (apr_interval_time_t waited = 0, step = kFirst; waited < kLimit; step = waited) {
    apr_sleep(step);
    waited += step;
    bool waiting = false;
    for (Subprocess* s = first; s != nullptr; s = s->next) {
      if (s->how != APR_KILL_AFTER_TIMEOUT) continue;
      if (Ended(s))
        s->how = APR_KILL_NEVER;
      else
        waiting = true;
    }
    if (!waiting) return;
  }
}

}  // namespace

void RunChildCleanups(apr_pool_t* pool) {
  while (Cleanup* c = pool->cleanups) {
    pool->cleanups = c->next;
    c->run_in_child(const_cast<void*>(c->data));
  }
  for (apr_pool_t* child = pool->family.first_child; child != nullptr; child = child->family.next)
    RunChildCleanups(child);
}

void EndSubprocesses(apr_pool_t* pool) {
  Subprocess* const first = std::exchange(pool->subprocesses, nullptr);
  bool wait = false;
  for (Subprocess* s = first; s != nullptr; s = s->next) {
    if (Ended(s)) s->how = APR_KILL_NEVER;
    if (TimesOut(s) && apr_proc_kill(s->process, SIGTERM) == APR_SUCCESS) wait = true;
    if (s->how == APR_KILL_ALWAYS) apr_proc_kill(s->process, SIGKILL);
  }
  if (wait) AwaitTimeouts(first);
  for (Subprocess* s = first; s != nullptr; s = s->next)
    if (s->how == APR_KILL_AFTER_TIMEOUT) apr_proc_kill(s->process, SIGKILL);
  for (Subprocess* s = first; s != nullptr; s = s->next)
    if (s->how != APR_KILL_NEVER) apr_proc_wait(s->process, nullptr, nullptr, APR_WAIT);
}

}  // namespace strata::apr

STRATA_APR_EXPORT void apr_pool_cleanup_register(apr_pool_t* pool, const void* data,
                                                 apr_status_t (*plain)(void*),
                                                 apr_status_t (*child)(void*)) {
  strata::apr::Register(pool, &apr_pool_t::cleanups, data, plain, child);
}

STRATA_APR_EXPORT void apr_pool_pre_cleanup_register(apr_pool_t* pool, const void* data,
                                                     apr_status_t (*plain)(void*)) {
  strata::apr::Register(pool, &apr_pool_t::pre_cleanups, data, plain, nullptr);
}

STRATA_APR_EXPORT void apr_pool_cleanup_kill(apr_pool_t* pool, const void* data,
                                             apr_status_t (*run)(void*)) {
  if (pool == nullptr) return;
  strata::apr::Kill(pool, &apr_pool_t::cleanups, data, run);
  strata::apr::Kill(pool, &apr_pool_t::pre_cleanups, data, run);
}

STRATA_APR_EXPORT void apr_pool_child_cleanup_set(apr_pool_t* pool, const void* data,
                                                  apr_status_t (*plain)(void*),
                                                  apr_status_t (*child)(void*)) {
  if (pool == nullptr) return;
  strata::apr::Cleanup* c = *strata::apr::Find(&pool->cleanups, data, plain);
  if (c != nullptr) c->run_in_child = child;
}

STRATA_APR_EXPORT apr_status_t apr_pool_cleanup_run(apr_pool_t* pool, void* data,
                                                    apr_status_t (*run)(void*)) {
  apr_pool_cleanup_kill(pool, data, run);
  return run(data);
}

STRATA_APR_EXPORT apr_status_t apr_pool_cleanup_null(void*) { return APR_SUCCESS; }

STRATA_APR_EXPORT void apr_pool_cleanup_for_exec(void) {
  if (apr_pool_t* global = strata::apr::GlobalPool()) strata::apr::RunChildCleanups(global);
}

STRATA_APR_EXPORT void apr_pool_note_subprocess(apr_pool_t* pool, apr_proc_t* process,
                                                apr_kill_conditions_e how) {
  auto* made = strata::apr::New<strata::apr::Subprocess>(pool);
  if (made == nullptr) return;
  *made = {pool->subprocesses, process, how};
  pool->subprocesses = made;
}

namespace {

apr_status_t SetUserdata(const void* data, const char* key, apr_status_t (*cleanup)(void*),
                         apr_pool_t* pool, bool copy_key) {
  if (pool->userdata == nullptr) pool->userdata = apr_hash_make(pool);
  if (copy_key && apr_hash_get(pool->userdata, key, APR_HASH_KEY_STRING) == nullptr)
    key = apr_pstrdup(pool, key);
  apr_hash_set(pool->userdata, key, APR_HASH_KEY_STRING, data);
  if (cleanup != nullptr) apr_pool_cleanup_register(pool, data, cleanup, cleanup);
  return APR_SUCCESS;
}

}  // namespace

STRATA_APR_EXPORT apr_status_t apr_pool_userdata_set(const void* data, const char* key,
                                                     apr_status_t (*cleanup)(void*),
                                                     apr_pool_t* pool) {
  return SetUserdata(data, key, cleanup, pool, true);
}

STRATA_APR_EXPORT apr_status_t apr_pool_userdata_setn(const void* data, const char* key,
                                                      apr_status_t (*cleanup)(void*),
                                                      apr_pool_t* pool) {
  return SetUserdata(data, key, cleanup, pool, false);
}

STRATA_APR_EXPORT apr_status_t apr_pool_userdata_get(void** data, const char* key,
                                                     apr_pool_t* pool) {
  *data =
      pool->userdata == nullptr ? nullptr : apr_hash_get(pool->userdata, key, APR_HASH_KEY_STRING);
  return APR_SUCCESS;
}
