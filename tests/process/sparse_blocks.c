// A block of 64 MiB of which a page in sixteen is touched. A thread goes on writing to those, and
// one page may not even be read. Ends when the block has shrunk, or fails after SECONDS; then all
// must be there still.
// Usage: sparse_blocks rest SECONDS | locked SECONDS
#include "../edge/case.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

enum { kBlock = 64 << 20, kStep = 64 << 10, kPage = 4096 };

static unsigned char* block;
static atomic_bool ends;
static atomic_uint sweeps;

static unsigned* CounterAt(size_t i) { return (unsigned*)(void*)(block + i * kStep + 512); }

static void Sweep(void) {
  const unsigned last = atomic_load(&sweeps);
  for (size_t i = 0; i < kBlock / kStep; ++i) {
    CHECK_AT(*CounterAt(i) == last, i);
    *CounterAt(i) = last + 1;
  }
  atomic_store(&sweeps, last + 1);
}

static void* Write(void* unused) {
  const struct timespec pause = {.tv_nsec = 20000000};
  while (!atomic_load(&ends)) {
    Sweep();
    nanosleep(&pause, NULL);
  }
  return unused;
}

static void Begin(void) {
  block = (unsigned char*)calloc(kBlock, 1);
  CHECK(block != NULL);
  Sweep();
  CHECK_AT(Resident() > kBlock * 3 / 4, Resident() >> 20);  // else nothing is shown
}
static void AwaitShrunk(time_t end) {
  const struct timespec pause = {.tv_nsec = 100000000};
  while (Resident() > kBlock / 3 && time(NULL) < end) nanosleep(&pause, NULL);
  CHECK_AT(Resident() <= kBlock / 3, Resident() >> 20);
}
static void Look(void) {
  for (size_t i = 0; i < kBlock / kStep; ++i) CHECK_AT(*CounterAt(i) == atomic_load(&sweeps), i);
}

// It refuses to split locked memory, which stays as it is.
CASE(locked) {
  CHECK(case_argc == 3);
  Begin();
  if (mlock(block, kBlock) != 0) return;  // the limit is lower
  sleep((unsigned)atol(case_argv[2]));
  CHECK_AT(Resident() > kBlock * 3 / 4, Resident() >> 20);
  CHECK(munlock(block, kBlock) == 0);
  Look();
  free(block);
}

CASE(rest) {
  CHECK(case_argc == 3);
  const time_t end = time(NULL) + atol(case_argv[2]);
  Begin();
  const uintptr_t middle = ((uintptr_t)block + kBlock / 2 + kPage) & ~(uintptr_t)(kPage - 1);
  unsigned char* const hidden = (unsigned char*)middle + 4 * kPage;
  CHECK(mprotect(hidden, kPage, PROT_NONE) == 0);
  pthread_t writer;
  CHECK(pthread_create(&writer, NULL, Write, NULL) == 0);
  AwaitShrunk(end);
  atomic_store(&ends, 1);
  CHECK(pthread_join(writer, NULL) == 0);
  CHECK(mprotect(hidden, kPage, PROT_READ | PROT_WRITE) == 0);
  const unsigned last = atomic_load(&sweeps);
  for (size_t i = 0; i < kBlock; ++i) {
    const size_t at = i % kStep;
    if (at < 512 || at >= 512 + sizeof(unsigned)) CHECK_AT(block[i] == 0, i);
  }
  for (size_t i = 0; i < kBlock / kStep; ++i) CHECK_AT(*CounterAt(i) == last, i);
  free(block);
}
