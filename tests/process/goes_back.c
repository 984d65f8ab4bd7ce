// Memory goes back: a burst of small objects, most of them freed, then a sleep without a call.
// Usage: goes_back random|oldest MIB KEEP_PERCENT SECONDS (up to four times that if it has to be)
// RSS must then be under twice the 4 KiB pages that still hold a survivor plus 24 MiB (random), or
// under 1.15 times the live bytes plus 16 MiB (oldest freed first).
#include "../edge/case.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

static unsigned char** blocks;
static unsigned short* sizes;
static size_t count;

static void* Map(size_t size) {
  void* memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  return memory;
}

static void Burst(size_t bytes) {
  size_t most = bytes / 1000;
  uint64_t random = 12345;
  blocks = (unsigned char**)Map(most * sizeof *blocks);
  sizes = (unsigned short*)Map(most * sizeof *sizes);
  size_t held = 0;
  while (held < bytes && count < most) {
    size_t size = 64 + NextRandom(&random) % (4096 - 64 + 1);
    blocks[count] = (unsigned char*)malloc(size);
    CHECK(blocks[count] != NULL);
    memset(blocks[count], 1, size);
    sizes[count++] = (unsigned short)size;
    held += size;
  }
}

static int ByAddress(const void* left, const void* right) {
  uintptr_t a = *(const uintptr_t*)left;
  uintptr_t b = *(const uintptr_t*)right;
  return a < b ? -1 : a > b;
}

// The bytes of all 4 KiB pages that hold a part of a survivor.
static size_t SurvivorPages(void) {
  uintptr_t* pages = (uintptr_t*)Map(count * 2 * sizeof *pages);
  size_t used = 0;
  for (size_t i = 0; i < count; ++i) {
    if (blocks[i] == NULL) continue;
    uintptr_t first = (uintptr_t)blocks[i] / 4096;
    uintptr_t last = ((uintptr_t)blocks[i] + sizes[i] - 1) / 4096;
    pages[used++] = first;
    if (last != first) pages[used++] = last;
  }
  qsort(pages, used, sizeof *pages, ByAddress);
  size_t distinct = 0;
  for (size_t i = 0; i < used; ++i) distinct += i == 0 || pages[i] != pages[i - 1];
  CHECK(munmap(pages, count * 2 * sizeof *pages) == 0);
  return distinct * 4096;
}

static void Report(const char* what, size_t bytes) {
  char text[96];
  int length = snprintf(text, sizeof text, "%s %zu MiB\n", what, bytes >> 20);
  CHECK(write(1, text, (size_t)length) == length);
}

static void Sleep(long seconds) {
  struct timespec rest = {seconds, 0};
  while (nanosleep(&rest, &rest) != 0) {
  }
}

static void Run(int random_order) {
  CHECK(case_argc == 5);
  size_t bytes = strtoull(case_argv[2], NULL, 10) << 20;
  unsigned keep = (unsigned)atoi(case_argv[3]);
  long seconds = atol(case_argv[4]);
  size_t before = Resident();
  Burst(bytes);
  size_t full = Resident();
  CHECK(full > before + bytes);
  uint64_t random = 999;
  size_t live = 0;
  for (size_t i = 0; i < count; ++i) {
    int kept = random_order ? NextRandom(&random) % 100 < keep : i >= count - count * keep / 100;
    if (kept) {
      live += sizes[i];
    } else {
      free(blocks[i]);
      blocks[i] = NULL;
    }
  }
  // The arrays above are the test's own.
  size_t own = count * (sizeof *blocks + sizeof *sizes);
  size_t pages = SurvivorPages();
  size_t bound = random_order ? pages * 2 + (24u << 20) : live + live * 15 / 100 + (16u << 20);
  Sleep(seconds);
  // On a busy machine the thread that gives back has less time than the clock says.
  for (long more = 0; more < 3 * seconds && Resident() - own >= bound; ++more) Sleep(1);
  size_t resident = Resident() - own;
  Report("at the peak:", full);
  Report("live:", live);
  Report("pages with a survivor:", pages);
  Report("resident:", resident);
  for (size_t i = 0; i < count; ++i) {
    if (blocks[i] == NULL) continue;
    for (size_t at = 0; at < sizes[i]; ++at) CHECK(blocks[i][at] == 1);
  }
  CHECK_AT(resident < bound, resident >> 20);
}

CASE(random) { Run(1); }
CASE(oldest) { Run(0); }
