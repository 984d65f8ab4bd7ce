// Pools of which little is touched: 800 blocks of 256 KiB, of each the first 5 %.
// Usage: thin_pools touch: prints the resident KiB. thin_pools
// fill SECONDS: then writes all and works until three quarters of it are on hugepages, and fails if
// that takes longer.
#include "../edge/case.h"

#include <stdio.h>
#include <time.h>

enum { kBlocks = 800, kBlock = 256 << 10, kTouched = kBlock / 20 };

static unsigned char* blocks[kBlocks];

static void MakePools(void) {
  for (int i = 0; i < kBlocks; ++i) {
    blocks[i] = (unsigned char*)malloc(kBlock);
    CHECK(blocks[i] != NULL);
    memset(blocks[i], 1, kTouched);
  }
}

static void WriteAll(int value) {
  for (int i = 0; i < kBlocks; ++i) memset(blocks[i], value, kBlock);
}

static size_t OnHugepages(void) {
  FILE* file = fopen("/proc/self/smaps_rollup", "r");
  CHECK(file != NULL);
  char line[256];
  size_t kib = 0;
  while (fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, "AnonHugePages:", 14) == 0) kib = strtoull(line + 14, NULL, 10);
  }
  CHECK(fclose(file) == 0);
  return kib << 10;
}

CASE(touch) {
  MakePools();
  printf("%zu\n", Resident() >> 10);
}

CASE(fill) {
  CHECK(case_argc == 3);
  const size_t wanted = (size_t)kBlocks * kBlock / 4 * 3;
  const time_t end = time(NULL) + atol(case_argv[2]);
  MakePools();
  CHECK_AT(OnHugepages() < wanted / 2, OnHugepages() >> 20);  // else nothing is shown
  WriteAll(2);
  for (int value = 3; OnHugepages() < wanted && time(NULL) < end; ++value) WriteAll(value & 0xff);
  const size_t huge = OnHugepages();
  CHECK_AT(huge >= wanted, huge >> 20);
}
