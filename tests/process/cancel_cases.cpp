// Calls of every exported function with a cancellation pending. malloc is no cancellation point, so
// a thread may be cancelled only where it says: in pthread_testcancel, behind the call. Run with
// the name of a function, or `names` for all of them.
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <new>

#include "strata/hot.h"
#include "strata/hot_cold.h"
#include "strata/reap.h"
#include "strata/scope.h"
#include "strata/strata.h"

extern "C" {
void* mallocx(size_t, int);
void* rallocx(void*, size_t, int);
size_t xallocx(void*, size_t, size_t, int);
size_t sallocx(const void*, int);
size_t nallocx(size_t, int);
void dallocx(void*, int);
void sdallocx(void*, size_t, int);
int mallctl(const char*, void*, size_t*, void*, size_t);
int mallctlnametomib(const char*, size_t*, size_t*);
void malloc_stats_print(void (*)(void*, const char*), void*, const char*);
int mallctlbymib(const size_t*, size_t, void*, size_t*, void*, size_t);
void free_sized(void* p, size_t size);
void free_aligned_sized(void* p, size_t align, size_t size);
void cfree(void* p);
}

namespace {

constexpr __hot_cold_t kHint{7};
constexpr std::align_val_t kAlign{64};
constexpr std::nothrow_t kQuiet{};

char* Grown() {
  // Small ones and large ones, so that every tier is asked, and the kernel.
  static void* blocks[3000];
  for (int i = 0; i < 3000; ++i) {
    blocks[i] = malloc(i % 10 == 0 ? 300'000 : 2000);
    memset(blocks[i], 1, 2000);
  }
  for (void* p : blocks) free(p);
  return static_cast<char*>(malloc(100));
}

// A life of objects that move: pages from the kernel, rounds of the collector, retired ones freed.
void MoveHotObjects() {
  strata_hot_options options{};
  options.size = sizeof options;
  options.check = 1;
  strata_hot_domain* domain = strata_hot_domain_create(&options);
  static strata_hot_guide guides[2000];
  for (strata_hot_guide& guide : guides)
    strata_hot_own(&guide, strata_hot_allocate(domain, 1000, 16, nullptr));
  strata_hot_scope scope;
  strata_hot_enter(domain, &scope);
  for (int i = 0; i < 100; ++i) memset(strata_hot_get(&scope, &guides[i]), 1, 1000);
  void* first = strata_hot_get(&scope, &guides[0]);
  void* next = strata_hot_allocate_beside(domain, 1000, 16, nullptr, first);
  strata_hot_exchange(&scope, &guides[0], first, next);
  strata_hot_leave(&scope);
  strata_hot_set_target(domain, 0.02);
  strata_hot_collect(domain);
  strata_hot_stats_t stats{};
  stats.size = sizeof stats;
  strata_hot_stats(domain, &stats);
  strata_hot_guide to{};
  strata_hot_move_guides(&to, &guides[1], sizeof to);
  strata_hot_move(&guides[1], &to);
  strata_hot_move(&to, &guides[1]);
  strata_hot_retire(domain, strata_hot_disown(&to));
  for (strata_hot_guide& guide : guides) strata_hot_free(strata_hot_disown(&guide));
  strata_hot_domain_destroy(domain);
}

int Null() { return open("/dev/null", O_WRONLY); }

struct Function {
  const char* name;
  void (*call)(int fd);
};

#define CALL(NAME, ...) {NAME, []([[maybe_unused]] int fd) { __VA_ARGS__; }}

const Function kFunctions[] = {
    CALL("malloc", free(Grown())),
    CALL("free", free(malloc(1 << 20))),
    CALL("calloc", free(calloc(3, 100'000))),
    CALL("realloc", free(realloc(malloc(100), 1 << 20))),
    CALL("reallocarray", free(reallocarray(malloc(100), 1000, 1000))),
    CALL("posix_memalign", void* p; (void)!posix_memalign(&p, 4096, 9000); free(p)),
    CALL("aligned_alloc", free(aligned_alloc(4096, 8192))),
    CALL("memalign", free(memalign(1 << 21, 100))),
    CALL("valloc", free(valloc(100))),
    CALL("pvalloc", free(pvalloc(100))),
    CALL("cfree", cfree(malloc(10))),
    CALL("free_sized", free_sized(malloc(10), 10)),
    CALL("free_aligned_sized", free_aligned_sized(aligned_alloc(64, 128), 64, 128)),
    CALL("malloc_usable_size", void* p = malloc(10); malloc_usable_size(p); free(p)),
    CALL("strdup", free(strdup("text"))),
    CALL("strndup", free(strndup("text", 2))),
    CALL("malloc_trim", malloc_trim(0)),
    CALL("mallinfo2", mallinfo2()),
    CALL("mallocx", free(mallocx(300'000, 6))),
    CALL("rallocx", free(rallocx(malloc(10), 300'000, 6))),
    CALL("xallocx", void* p = malloc(10); xallocx(p, 20, 0, 0); free(p)),
    CALL("sallocx", void* p = malloc(10); sallocx(p, 0); free(p)),
    CALL("nallocx", nallocx(10, 0)),
    CALL("dallocx", dallocx(Grown(), 0)),
    CALL("sdallocx", sdallocx(Grown(), 100, 0)),
    CALL("mallctl", mallctl("arena.0.purge", nullptr, nullptr, nullptr, 0)),
    CALL("mallctlnametomib", size_t mib[2]; size_t n = 2;
         mallctlnametomib("stats.mapped", mib, &n)),
    CALL("mallctlbymib", size_t mib[2]; size_t n = 2; size_t mapped; size_t size = sizeof mapped;
         mallctlnametomib("stats.mapped", mib, &n);
         mallctlbymib(mib, n, &mapped, &size, nullptr, 0)),
    CALL("mallopt", mallopt(M_TRIM_THRESHOLD, 1)),
    CALL("malloc_stats", malloc_stats()),
    CALL("malloc_stats_print", malloc_stats_print(nullptr, nullptr, nullptr)),
    CALL("malloc_info", FILE* file = fdopen(fd, "w"); setvbuf(file, nullptr, _IONBF, 0);
         malloc_info(0, file)),
    CALL("strata_version", strata_version()),
    CALL("strata_cache_mode", strata_cache_mode()),
    CALL("strata_stats", strata_stats_t s; strata_stats(&s)),
    CALL("strata_stats_json", static char text[100'000]; strata_stats_json(text, sizeof text)),
    CALL("strata_release", free(Grown()); strata_release(SIZE_MAX)),
    CALL("strata_set", strata_set("soft_limit", "50%"); strata_set("sample", "1M")),
    CALL("strata_get", char text[100]; strata_get("soft_limit", text, sizeof text)),
    CALL("strata_profile", strata_profile("heap", fd)),
    CALL("strata_profile_window", strata_profile_window("allocs", 20, fd)),
    CALL("strata_sample_interval", strata_sample_interval()),
    CALL("strata_reap_create", strata_reap_destroy(strata_reap_create(nullptr))),
    CALL("strata_reap_create_shared", strata_reap* r = strata_reap_create_shared(nullptr);
         for (int i = 0; i < 2000; ++i) strata_reap_malloc(r, 1000); strata_reap_clear(r);
         strata_reap_destroy(r)),
    CALL("strata_scope_create", strata_scope* s = strata_scope_create(); strata_scope_enter(s);
         free(Grown()); strata_scope_enter(nullptr); strata_scope_close(s)),
    CALL("strata_hot_domain_create", MoveHotObjects()),
    CALL("strata_hot_domain_default", strata_hot_domain_default()),
    CALL("_Znwm", operator delete(operator new(10))),
    CALL("_Znam", operator delete[](operator new[](10))),
    CALL("_ZnwmSt11align_val_t", operator delete(operator new(10, kAlign), kAlign)),
    CALL("_ZnwmRKSt9nothrow_t", operator delete(operator new(10, kQuiet))),
    CALL("_Znwm12__hot_cold_t", operator delete(operator new(10, kHint))),
    CALL("__size_returning_new", operator delete(__size_returning_new(10).p)),
};

const Function* chosen;
bool came_through;

void* Run(void* null) {
  const int fd = Null();
  pthread_cancel(pthread_self());  // deferred: it waits for the next cancellation point
  chosen->call(fd);
  came_through = true;
  pthread_testcancel();
  return null;
}

// The same where the thread ends the process: the line is written whole, and abort called.
void* FreeTwice(void* p) {
  pthread_cancel(pthread_self());
  free(p);
  free(p);
  came_through = true;
  pthread_testcancel();
  return nullptr;
}

int JoinCancelled(void* (*run)(void*), void* argument) {
  pthread_t thread;
  void* result = nullptr;
  if (pthread_create(&thread, nullptr, run, argument) != 0) return 3;
  pthread_join(thread, &result);
  if (!came_through) return dprintf(2, "the call was cut off\n"), 1;
  if (result != PTHREAD_CANCELED) return dprintf(2, "the cancellation is gone\n"), 2;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 4;
  if (strcmp(argv[1], "double_free") == 0) return JoinCancelled(FreeTwice, malloc(1000));
  for (const Function& f : kFunctions) {
    if (strcmp(argv[1], "names") == 0) {
      puts(f.name);
    } else if (strcmp(argv[1], "all") == 0 || strcmp(argv[1], f.name) == 0) {
      chosen = &f;
      came_through = false;
      const int status = JoinCancelled(Run, nullptr);
      if (status != 0) dprintf(2, "in %s\n", f.name);
      if (status != 0) return status;
    }
  }
  return 0;
}
