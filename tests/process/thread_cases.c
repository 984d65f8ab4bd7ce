// Threads: many that come and go with full caches, many alive at once, keys whose destructors
// allocate, and blocks handed from thread to thread.
#include "../edge/case.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static long ResidentKiB(void) {
  FILE* file = fopen("/proc/self/statm", "r");
  long pages[2] = {0, 0};
  CHECK(file != NULL && fscanf(file, "%ld %ld", &pages[0], &pages[1]) == 2);
  fclose(file);
  return pages[1] * 4;
}

static void* FillCaches(void* number) {
  enum { kBlocks = 400 };
  void* blocks[kBlocks];
  uint64_t random = (uint64_t)(uintptr_t)number + 1;
  for (int i = 0; i < kBlocks; ++i) {
    size_t size = 8 + NextRandom(&random) % (i % 40 == 0 ? 60000 : 2000);
    blocks[i] = malloc(size);
    CHECK_AT(blocks[i] != NULL, size);
    memset(blocks[i], 1, size);
  }
  for (int i = 0; i < kBlocks; ++i) free(blocks[i]);
  return NULL;
}

// argv[2] threads in all, eight at a time: what their caches held must not pile up.
CASE(come_and_go) {
  enum { kAtOnce = 8 };
  int total = atoi(case_argv[2]);
  long settled = 0;
  for (int done = 0; done < total; done += kAtOnce) {
    pthread_t ids[kAtOnce];
    for (int i = 0; i < kAtOnce; ++i) {
      CHECK(pthread_create(&ids[i], NULL, FillCaches, (void*)(uintptr_t)(done + i)) == 0);
    }
    for (int i = 0; i < kAtOnce; ++i) CHECK(pthread_join(ids[i], NULL) == 0);
    if (done <= total / 5) settled = ResidentKiB();
  }
  CHECK_AT(settled < 128 * 1024, settled);
  CHECK_AT(ResidentKiB() < settled + 8 * 1024, ResidentKiB() - settled);
}

// Detached threads end when nobody looks, also after main has returned.
CASE(detached) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 64 * 1024);
  for (uintptr_t i = 0; i < 500; ++i) {
    pthread_t id;
    while (pthread_create(&id, &attributes, FillCaches, (void*)i) != 0) usleep(1000);
  }
}

static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate = PTHREAD_COND_INITIALIZER;
static int waiting;
static int open_gate;

static void* LiveOn(void* number) {
  size_t size = 100 + (size_t)(uintptr_t)number % 500;
  char* block = (char*)malloc(size);
  CHECK(block != NULL);
  Paint(block, size, (uint64_t)(uintptr_t)number);
  pthread_mutex_lock(&gate_lock);
  ++waiting;
  while (!open_gate) pthread_cond_wait(&gate, &gate_lock);
  pthread_mutex_unlock(&gate_lock);
  CHECK(IsPainted(block, size, (uint64_t)(uintptr_t)number));
  free(block);
  return NULL;
}

// argv[2] threads alive at once, or as many as the system lets be, but 500 at least.
CASE(many_alive) {
  int wanted = atoi(case_argv[2]);
  pthread_t* ids = (pthread_t*)malloc((size_t)wanted * sizeof *ids);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 32 * 1024);
  long before = ResidentKiB();
  int count = 0;
  while (count < wanted &&
         pthread_create(&ids[count], &attributes, LiveOn, (void*)(uintptr_t)count) == 0) {
    ++count;
  }
  CHECK_AT(count >= 500, count);
  for (;;) {
    pthread_mutex_lock(&gate_lock);
    int ready = waiting;
    pthread_mutex_unlock(&gate_lock);
    if (ready == count) break;
    usleep(1000);
  }
  // Stack and kernel's share come to about 12 KiB a thread; the allocator may add as much.
  CHECK_AT(ResidentKiB() - before < 24L * count + 16 * 1024, (ResidentKiB() - before) / count);
  pthread_mutex_lock(&gate_lock);
  open_gate = 1;
  pthread_cond_broadcast(&gate);
  pthread_mutex_unlock(&gate_lock);
  for (int i = 0; i < count; ++i) CHECK(pthread_join(ids[i], NULL) == 0);
  free(ids);
}

static pthread_key_t keys[8];
static atomic_int destroyed;

static void DestroyKey(void* value) {
  void* fresh = malloc(3000);
  CHECK(fresh != NULL);
  free(value);
  free(fresh);
  // Comes round again, after other destructors (the library's too, if it has one) have run.
  if (atomic_fetch_add(&destroyed, 1) % 3 == 0) {
    CHECK(pthread_setspecific(keys[0], malloc(50)) == 0);
  }
}

static void* SetKeys(void* unused) {
  for (int i = 0; i < 8; ++i) CHECK(pthread_setspecific(keys[i], malloc(64)) == 0);
  return unused;
}

// Destructors of thread keys run while the thread is being taken apart, and may allocate.
CASE(key_destructors_allocate) {
  for (int i = 0; i < 8; ++i) CHECK(pthread_key_create(&keys[i], DestroyKey) == 0);
  for (int round = 0; round < 500; ++round) {
    pthread_t id;
    CHECK(pthread_create(&id, NULL, SetKeys, NULL) == 0);
    CHECK(pthread_join(id, NULL) == 0);
  }
  CHECK(atomic_load(&destroyed) >= 4000);
}

enum { kRing = 4096, kBlocksHandedOver = 600000 };
static _Atomic(unsigned char*) ring[kRing];

static void* Produce(void* unused) {
  for (int i = 0; i < kBlocksHandedOver; ++i) {
    size_t size = 16 + (size_t)(i * 31 % 1000);
    unsigned char* block = (unsigned char*)malloc(size);
    CHECK(block != NULL);
    block[0] = (unsigned char)i;
    block[size - 1] = (unsigned char)(i >> 8);
    while (atomic_load_explicit(&ring[i % kRing], memory_order_relaxed) != NULL) sched_yield();
    atomic_store_explicit(&ring[i % kRing], block, memory_order_release);
  }
  return unused;
}

// One thread allocates, another frees and never allocates: memory must flow back.
CASE(hand_over) {
  pthread_t producer;
  CHECK(pthread_create(&producer, NULL, Produce, NULL) == 0);
  for (int i = 0; i < kBlocksHandedOver; ++i) {
    size_t size = 16 + (size_t)(i * 31 % 1000);
    unsigned char* block;
    while ((block = atomic_load_explicit(&ring[i % kRing], memory_order_acquire)) == NULL) {
      sched_yield();
    }
    CHECK_AT(block[0] == (unsigned char)i && block[size - 1] == (unsigned char)(i >> 8), i);
    atomic_store_explicit(&ring[i % kRing], NULL, memory_order_relaxed);
    free(block);
  }
  CHECK(pthread_join(producer, NULL) == 0);
  // At most 2 MiB wait in the ring.
  CHECK_AT(ResidentKiB() < 32 * 1024, ResidentKiB());
}

static void* CancelMe(void* unused) {
  for (;;) {
    free(malloc(500));
    pthread_testcancel();
  }
  return unused;
}

CASE(cancelled) {
  for (int i = 0; i < 300; ++i) {
    pthread_t id;
    CHECK(pthread_create(&id, NULL, CancelMe, NULL) == 0);
    CHECK(pthread_cancel(id) == 0 && pthread_join(id, NULL) == 0);
  }
}

// A key that was never made is 0 in a static variable; libc refuses it, so it is nobody else's.
CASE(key_zero_is_the_programs) {
  free(malloc(100));
  const pthread_key_t unmade = 0;
  CHECK(pthread_getspecific(unmade) == NULL);
  CHECK(pthread_setspecific(unmade, keys) == EINVAL);
  CHECK(pthread_key_delete(unmade) == EINVAL);
  pthread_key_t first;
  CHECK(pthread_key_create(&first, free) == 0 && first == 0);
}
