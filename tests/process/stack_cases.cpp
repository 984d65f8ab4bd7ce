// How much of its caller's stack each call takes: painted stacks show the deepest byte that was
// touched, and stacks of 8 and 16 KiB show that programs with such stacks live. A case prints one
// line for each path, "NAME BYTES".
#include "../edge/case.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>

#include <initializer_list>
#include <new>

namespace {

constexpr size_t kMiB = 1 << 20;
constexpr unsigned char kPaint = 0xa5;
constexpr size_t kPaintedBytes = 128 << 10;
// What this program's own calls take between two paths.
constexpr size_t kUnpainted = 384;

unsigned char* painted = nullptr;  // none: nothing is measured, and the stack may be a small one

struct Path {
  const char* name;
  size_t bytes;
};
Path paths[64];
size_t path_count = 0;

void PaintBelow(const unsigned char* sp) {
  if (painted != nullptr) memset(painted, kPaint, static_cast<size_t>(sp - painted) - kUnpainted);
}

void Note(const char* name, const unsigned char* sp) {
  if (painted == nullptr) return;
  const unsigned char* at = painted;
  while (*at == kPaint) ++at;
  const auto bytes = static_cast<size_t>(sp - at);
  size_t i = 0;
  while (i < path_count && strcmp(paths[i].name, name) != 0) ++i;
  if (i == path_count) paths[path_count++] = {name, 0};
  if (paths[i].bytes < bytes) paths[i].bytes = bytes;
}

void PrintPaths() {
  for (size_t i = 0; i < path_count; ++i) printf("%s %zu\n", paths[i].name, paths[i].bytes);
}

unsigned char* StackPointer() __attribute__((always_inline));
inline unsigned char* StackPointer() {
  unsigned char* sp;
  asm volatile("mov %%rsp, %0" : "=r"(sp));
  return sp;
}

#define MEASURE(NAME, ...)                     \
  do {                                         \
    unsigned char* const sp_ = StackPointer(); \
    PaintBelow(sp_);                           \
    __VA_ARGS__;                               \
    Note(NAME, sp_);                           \
  } while (0)

// ---- stacks

unsigned char* MapStack(size_t bytes) {
  auto* low = static_cast<unsigned char*>(
      mmap(nullptr, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  CHECK(low != MAP_FAILED && mprotect(low, 4096, PROT_NONE) == 0);
  return low + 4096;
}

void RunInThread(void* (*run)(void*), unsigned char* stack, size_t bytes) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  CHECK(pthread_attr_setstack(&attributes, stack, bytes) == 0);
  pthread_t id;
  CHECK(pthread_create(&id, &attributes, run, nullptr) == 0);
  CHECK(pthread_join(id, nullptr) == 0);
}

void RunPainted(void* (*run)(void*)) {
  painted = MapStack(kPaintedBytes);
  RunInThread(run, painted, kPaintedBytes);
  PrintPaths();
}

ucontext_t back, coroutine;

void RunInCoroutine(void (*run)(), size_t bytes) {
  CHECK(getcontext(&coroutine) == 0);
  coroutine.uc_stack.ss_sp = MapStack(bytes);
  coroutine.uc_stack.ss_size = bytes;
  coroutine.uc_link = &back;
  makecontext(&coroutine, run, 0);
  CHECK(swapcontext(&back, &coroutine) == 0);
}

// ---- the calls

template <class F>
F Find(const char* name) {
  const F found = reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
  CHECK(found != nullptr);
  return found;
}

// Looked up before any stack is painted or small: dlsym goes deep.
size_t (*release_bytes)(size_t);
int (*stats)(void*);
size_t (*stats_json)(char*, size_t);
void* (*scope_create)();
void* (*scope_enter)(void*);
void (*scope_destroy)(void*);
void* (*reap_create)(void*);
void* (*reap_malloc)(void*, size_t);
void* (*reap_realloc)(void*, void*, size_t);
void (*reap_destroy)(void*);

void FindAll() {
  release_bytes = Find<size_t (*)(size_t)>("strata_release");
  stats = Find<int (*)(void*)>("strata_stats");
  stats_json = Find<size_t (*)(char*, size_t)>("strata_stats_json");
  scope_create = Find<void* (*)()>("strata_scope_create");
  scope_enter = Find<void* (*)(void*)>("strata_scope_enter");
  scope_destroy = Find<void (*)(void*)>("strata_scope_destroy");
  reap_create = Find<void* (*)(void*)>("strata_reap_create");
  reap_malloc = Find<void* (*)(void*, size_t)>("strata_reap_malloc");
  reap_realloc = Find<void* (*)(void*, void*, size_t)>("strata_reap_realloc");
  reap_destroy = Find<void (*)(void*)>("strata_reap_destroy");
}

char json[kMiB];

// A number of the statistics, by its name.
long Figure(const char* name) {
  CHECK(stats_json(json, sizeof json) < sizeof json);
  const char* at = strstr(json, name);
  CHECK(at != nullptr);
  at = strchr(at, ':');
  CHECK(at != nullptr);
  return atol(at + 1);
}

struct Block {
  Block* next;
};

// `count` blocks in front of `chain`; null where there is no memory.
Block* Chain(Block* chain, size_t size, int count) {
  for (int i = 0; i < count; ++i) {
    auto* block = static_cast<Block*>(malloc(size));
    CHECK_AT(block != nullptr, size);
    block->next = chain;
    chain = block;
  }
  return chain;
}

void FreeChain(Block* chain) {
  while (chain != nullptr) {
    Block* next = chain->next;
    free(chain);
    chain = next;
  }
}

Block* EveryClass() {
  Block* chain = nullptr;
  for (size_t size = 8; size <= 256 << 10; size += size / 8 + 8)
    chain = Chain(chain, size, size < 1024 ? 1200 : (size < (16 << 10) ? 60 : 4));
  return chain;
}

Block* Large() {
  Block* chain = nullptr;
  for (size_t size = 257 << 10; size <= 40 * kMiB; size += size / 2) chain = Chain(chain, size, 3);
  return Chain(chain, 3 * kMiB / 4, 200);
}

void Callocs() {
  for (size_t size = 1; size <= 8 * kMiB; size = size * 3 / 2 + 1) {
    void* volatile p = calloc(size, 1);
    CHECK_AT(p != nullptr, size);
    free(p);
  }
}

void Reallocs() {
  void* p = nullptr;
  for (size_t size = 1; size <= 32 * kMiB; size = size * 3 / 2 + 1) {
    p = realloc(p, size);
    CHECK_AT(p != nullptr, size);
  }
  for (size_t size = 32 * kMiB; size != 0; size /= 2) {
    p = realloc(p, size);
    CHECK_AT(p != nullptr, size);
  }
  free(p);
}

void Aligned() {
  for (size_t align = 8; align <= 4 * kMiB; align *= 2) {
    for (size_t size = 1; size <= kMiB; size = size * 7 + 1) {
      void* p = nullptr;
      CHECK_AT(posix_memalign(&p, align, size) == 0, align);
      CHECK(reinterpret_cast<uintptr_t>(p) % align == 0);
      free(p);
    }
  }
}

void News() {
  for (size_t size = 1; size <= 8 * kMiB; size = size * 2 + 1) {
    ::operator delete(::operator new(size), size);
    ::operator delete(::operator new(size, std::align_val_t(64)), std::align_val_t(64));
    ::operator delete(::operator new(size, std::nothrow));
  }
}

void InScope() {
  void* scope = scope_create();
  CHECK(scope != nullptr);
  scope_enter(scope);
  Block* chain = nullptr;
  for (size_t size = 8; size <= 600 << 10; size += size / 4 + 8) chain = Chain(chain, size, 20);
  void* p = nullptr;
  for (size_t size = 1; size <= kMiB; size = size * 2 + 1) CHECK((p = realloc(p, size)) != nullptr);
  scope_enter(nullptr);
  scope_destroy(scope);
}

void InReap() {
  void* reap = reap_create(nullptr);
  CHECK(reap != nullptr);
  void* p = nullptr;
  for (size_t size = 8; size <= 600 << 10; size += size / 4 + 8) {
    for (int i = 0; i < 20; ++i) CHECK((p = reap_malloc(reap, size)) != nullptr);
  }
  for (size_t size = 1; size <= kMiB; size = size * 2 + 1)
    CHECK((p = reap_realloc(reap, p, size)) != nullptr);
  reap_destroy(reap);
}

__attribute__((noinline)) void Recurse(int levels) {
  if (levels == 0) {
    Block* chain = nullptr;
    MEASURE("deep_malloc", chain = Chain(nullptr, 40, 2000));
    MEASURE("deep_free", FreeChain(chain));
    return;
  }
  Recurse(levels - 1);
  asm volatile("");  // no tail call
}

alignas(8) char figures[1024];

void Everything() {
  Block* chain = nullptr;
  MEASURE("first", chain = Chain(nullptr, 100, 1));
  MEASURE("first_free", FreeChain(chain));
  for (int round = 0; round < 2; ++round) {
    MEASURE("classes", chain = EveryClass());
    MEASURE("classes_free", FreeChain(chain));
    MEASURE("large", chain = Large());
    MEASURE("large_free", FreeChain(chain));
    MEASURE("calloc", Callocs());
    MEASURE("realloc", Reallocs());
    MEASURE("aligned", Aligned());
    MEASURE("new", News());
    MEASURE("scope", InScope());
    MEASURE("reap", InReap());
    MEASURE("trim", malloc_trim(0));
    MEASURE("release", release_bytes(SIZE_MAX));
    MEASURE("mallinfo2", mallinfo2());
    MEASURE("strata_stats", stats(figures));
    MEASURE("json", stats_json(json, sizeof json));
    MEASURE("malloc_stats", malloc_stats());
  }
  if (painted != nullptr) Recurse(100);
}

void* EverythingInThread(void*) {
  Everything();
  return nullptr;
}

int Threads() {
  DIR* tasks = opendir("/proc/self/task");
  CHECK(tasks != nullptr);
  int n = -2;  // . and ..
  while (readdir(tasks) != nullptr) ++n;
  closedir(tasks);
  return n;
}

void* StartLibraryThread(void*) {
  Block* chain = nullptr;
  for (int tries = 0; tries < 2000 && Threads() < 3; ++tries) {
    MEASURE("thread_start", chain = Chain(chain, 64 << 10, 16));
    usleep(1000);
  }
  CHECK_AT(Threads() == 3, Threads());
  // Its first rounds: unwind tables, topology, limits.
  usleep(1600 * 1000);
  Everything();
  return nullptr;
}

void* SoftLimit(void*) {
  // Blocks that are touched, and freed but for one in eight: only caches and spans can give.
  for (int round = 0; round < 4; ++round) {
    Block* kept = nullptr;
    Block* chain = nullptr;
    MEASURE(
        "soft_limit", for (int i = 0; i < 20000; ++i) {
          Block*& to = i % 8 == 0 ? kept : chain;
          to = Chain(to, 2000, 1);
          memset(to + 1, 1, 2000 - sizeof(Block));
        });
    MEASURE("soft_limit_free", FreeChain(chain));
    MEASURE("soft_limit_large", chain = Large());
    FreeChain(chain);
    FreeChain(kept);
  }
  CHECK(Figure("\"soft_hits\"") > 0);
  Everything();
  return nullptr;
}

Block* reserve = nullptr;

void GiveReserve() {
  if (reserve == nullptr) abort();
  free(reserve);
  reserve = nullptr;
}

// Everything that fails, fails with ENOMEM and in peace.
void* Exhaust(void*) {
  reserve = Chain(nullptr, 4 * kMiB, 1);
  Block* chain = nullptr;
  MEASURE(
      "exhaust",
      for (size_t size : {3 * kMiB, size_t{400} << 10, size_t{20000}, size_t{700}, size_t{16}}) {
        errno = 0;
        while (auto* block = static_cast<Block*>(malloc(size))) {
          block->next = chain;
          chain = block;
        }
        CHECK_AT(errno == ENOMEM, size);
      });
  void* volatile p = nullptr;
  MEASURE("fail_calloc", p = calloc(1, 9 * kMiB));
  CHECK(p == nullptr);
  MEASURE("fail_realloc", p = realloc(reserve, 90 * kMiB));
  CHECK(p == nullptr);
  int error = 0;
  MEASURE("fail_aligned", error = posix_memalign(const_cast<void**>(&p), 4096, 9 * kMiB));
  CHECK(error == ENOMEM);
  std::set_new_handler(GiveReserve);
  MEASURE("new_handler", p = ::operator new(3 * kMiB));
  CHECK(p != nullptr && reserve == nullptr);
  ::operator delete(p);
  FreeChain(chain);
  return nullptr;
}

void* BadFrees(void*) {
  char* p = static_cast<char*>(malloc(100));
  char local[64];
  MEASURE("bad_free_middle", free(p + 16));
  MEASURE("bad_free_foreign", free(local + 16));
  free(p);
  MEASURE("bad_free_double", free(p));
  return nullptr;
}

}  // namespace

CASE(everything) {
  FindAll();
  RunPainted(EverythingInThread);
}

// glibc allocates for the keys from 32 on: the library's own is then one of those.
__attribute__((constructor(101))) static void TakeKeys() {
  pthread_key_t key;
  for (int i = 0; i < 40; ++i) pthread_key_create(&key, nullptr);
}

CASE(thread_start) {
  FindAll();
  RunPainted(StartLibraryThread);
}

CASE(soft_limit) {
  FindAll();
  RunPainted(SoftLimit);
}

CASE(exhaust) { RunPainted(Exhaust); }

// As `exhaust`, where the kernel refuses memory, also for the library's own.
CASE(address_space) {
  FILE* file = fopen("/proc/self/statm", "r");
  size_t pages = 0;
  CHECK(file != nullptr && fscanf(file, "%zu", &pages) == 1);
  fclose(file);
  painted = MapStack(kPaintedBytes);
  const struct rlimit limit = {pages * 4096 + 80 * kMiB, RLIM_INFINITY};
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
  RunInThread(Exhaust, painted, kPaintedBytes);
  PrintPaths();
}

CASE(bad_free) { RunPainted(BadFrees); }

CASE(small_thread) {
  FindAll();
  RunInThread(StartLibraryThread, MapStack(PTHREAD_STACK_MIN), PTHREAD_STACK_MIN);
}

CASE(small_coroutine) {
  FindAll();
  RunInCoroutine(Everything, 8 << 10);
  usleep(1600 * 1000);
  RunInCoroutine(Everything, 8 << 10);
}
