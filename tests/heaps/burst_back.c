// Hoard's empty superblocks go back to the system: a burst of small blocks by several threads,
// freed by others than took them, and nothing called afterwards. Usage: burst_back all|most RSS
// must then be what Hoard may keep: of what lives, a third more for f = 1/4; K superblocks for each
// class and processor; a quarter of all that and 16 MiB in the page heap, which gives back in the
// call that frees. The process runs on two processors, so that P is two on any machine.
#include "../edge/case.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>

enum { kThreads = 4, kBlocks = 30000, kLeast = 64, kMost = 4096 };
enum { kProcessors = 2, kSlack = 4, kSuperblock = 65536, kClasses = 28, kSpares = 16 };

static struct Pile {
  unsigned char* blocks[kBlocks];
  unsigned short sizes[kBlocks];
  unsigned keep_percent;
  size_t live;
} piles[kThreads];
static pthread_barrier_t all_have;

static void RunOnTwo(void) {
  cpu_set_t allowed, two;
  CHECK(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  CPU_ZERO(&two);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&two) < kProcessors; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &two);
  }
  CHECK(sched_setaffinity(0, sizeof two, &two) == 0);
}

static void Take(struct Pile* pile, uint64_t random) {
  for (size_t i = 0; i < kBlocks; ++i) {
    size_t size = kLeast + NextRandom(&random) % (kMost - kLeast + 1);
    pile->blocks[i] = (unsigned char*)malloc(size);
    CHECK(pile->blocks[i] != NULL);
    memset(pile->blocks[i], (int)(size % 251), size);
    pile->sizes[i] = (unsigned short)size;
  }
}

// All but the newest, of another thread's pile.
static void Free(struct Pile* pile) {
  for (size_t i = 0; i < kBlocks; ++i) {
    if (i >= kBlocks - (size_t)kBlocks * pile->keep_percent / 100) {
      pile->live += pile->sizes[i];
    } else {
      free(pile->blocks[i]);
      pile->blocks[i] = NULL;
    }
  }
}

static void* Burst(void* index) {
  size_t mine = (size_t)(uintptr_t)index;
  Take(&piles[mine], mine + 1);
  pthread_barrier_wait(&all_have);
  Free(&piles[(mine + 1) % kThreads]);
  return NULL;
}

static void Run(unsigned keep_percent) {
  RunOnTwo();
  memset(piles, 1, sizeof piles);  // it is resident before, as after
  for (size_t i = 0; i < kThreads; ++i) {
    piles[i].keep_percent = keep_percent;
    piles[i].live = 0;
  }
  size_t before = Resident();
  CHECK(pthread_barrier_init(&all_have, NULL, kThreads) == 0);
  pthread_t threads[kThreads];
  for (size_t i = 0; i < kThreads; ++i)
    CHECK(pthread_create(&threads[i], NULL, Burst, (void*)(uintptr_t)i) == 0);
  for (size_t i = 0; i < kThreads; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  size_t resident = Resident() - before;

  size_t live = 0;
  for (size_t i = 0; i < kThreads; ++i) {
    live += piles[i].live;
    for (size_t k = 0; k < kBlocks; ++k) {
      const unsigned char* block = piles[i].blocks[k];
      for (size_t at = 0; block != NULL && at < piles[i].sizes[k]; ++at)
        CHECK(block[at] == piles[i].sizes[k] % 251);
    }
  }
  // An eighth more for what blocks are rounded up by.
  size_t held =
      live * 9 / 8 * 4 / 3 + (size_t)kProcessors * (kSlack * kClasses + kSpares) * kSuperblock;
  size_t bound = held + held / 4 + (16 << 20);
  char text[96];
  int length = snprintf(text, sizeof text, "live %zu, resident %zu, may be %zu MiB\n", live >> 20,
                        resident >> 20, bound >> 20);
  CHECK(write(1, text, (size_t)length) == length);
  CHECK_AT(resident < bound, resident >> 20);
}

CASE(all) { Run(0); }
CASE(most) { Run(10); }
