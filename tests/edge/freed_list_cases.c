// What becomes of a cache when the program writes to blocks that it has freed, and of pointers into
// the middle of a block. The arguments name the size and what is done.
#include "case.h"

enum { kBlocks = 6, kDepth = 2 };

extern void free_sized(void*, size_t) __attribute__((weak));
extern void free_aligned_sized(void*, size_t, size_t) __attribute__((weak));

static size_t Argument(int at) {
  CHECK(case_argc > at);
  return (size_t)atol(case_argv[at]);
}

static int Does(const char* what) {
  CHECK(case_argc > 3);
  return strcmp(case_argv[3], what) == 0;
}

// All of a size, none overlapping another.
static void Survive(size_t size) {
  enum { kMany = 400 };
  static unsigned char* blocks[kMany];
  for (int i = 0; i < kMany; ++i) {
    blocks[i] = (unsigned char*)malloc(size);
    CHECK(blocks[i] != NULL);
    Paint(blocks[i], size, (uint64_t)i);
  }
  for (int i = 0; i < kMany; ++i) {
    CHECK_AT(IsPainted(blocks[i], size, (uint64_t)i), i);
    free(blocks[i]);
  }
}

// Six blocks are freed, and the one that was freed third last is written to.
CASE(write_after_free) {
  const size_t size = Argument(2);
  static char decoy[64] __attribute__((aligned(64)));
  char* blocks[kBlocks];
  // Enough before, so that the list has room for six and none goes further down.
  Survive(size);
  for (int i = 0; i < kBlocks; ++i) CHECK((blocks[i] = (char*)malloc(size)) != NULL);
  char* live = (char*)malloc(size);
  Paint(live, size, 9);
  for (int i = 0; i < kBlocks; ++i) free(HidePointer(blocks[i]));
  char* hit = (char*)HidePointer(blocks[kBlocks - 1 - kDepth]);
  char* other = (char*)HidePointer(blocks[kBlocks - 2]);
  void* address;
  if (Does("zero")) memset(hit, 0, 8);
  if (Does("ones")) memset(hit, 0xff, 8);
  if (Does("text")) memcpy(hit, "AAAAAAAA", 8);
  if (Does("decoy")) memcpy(hit, (address = decoy, &address), 8);
  if (Does("live")) memcpy(hit, (address = live, &address), 8);
  if (Does("itself")) memcpy(hit, (address = hit, &address), 8);
  if (Does("lowest_byte")) hit[0] = (char)(hit[0] + 16);
  if (Does("second_byte")) hit[1] = (char)(hit[1] + 1);
  if (Does("highest_byte")) hit[7] = (char)(hit[7] ^ 1);
  if (Does("others_link")) memcpy(hit, other, 8);
  for (int i = 0; i < 3 * kBlocks; ++i) {
    char* block = (char*)malloc(size);
    CHECK(block != NULL && block != live && block != decoy);
  }
  CHECK(IsPainted(live, size, 9));
  Survive(size);
}

// The same, where the thread ends and what its cache holds is sent down.
static void* FreeAndWrite(void* arg) {
  const size_t size = *(size_t*)arg;
  char* blocks[kBlocks];
  Survive(size);
  for (int i = 0; i < kBlocks; ++i) CHECK((blocks[i] = (char*)malloc(size)) != NULL);
  for (int i = 0; i < kBlocks; ++i) free(HidePointer(blocks[i]));
  memcpy(HidePointer(blocks[kBlocks - 1 - kDepth]), "AAAAAAAA", 8);
  return NULL;
}

CASE(write_after_free_at_thread_end) {
  size_t size = Argument(2);
  OnAnotherThread(FreeAndWrite, &size);
  Survive(size);
}

CASE(double_free_of_the_newest_block) {
  const size_t size = Argument(2);
  char* blocks[kBlocks];
  Survive(size);
  for (int i = 0; i < kBlocks; ++i) CHECK((blocks[i] = (char*)malloc(size)) != NULL);
  for (int i = 0; i < kBlocks; ++i) free(HidePointer(blocks[i]));
  free(HidePointer(blocks[kBlocks - 1]));
  Survive(size);
}

// Blocks that are handed out, never written to and freed again are no double frees.
CASE(untouched_blocks_come_and_go) {
  enum { kMany = 300 };
  static void* blocks[kMany];
  for (size_t size = 8; size < 3000; size += size / 4) {
    for (int round = 0; round < 6; ++round) {
      for (int i = 0; i < kMany; ++i) CHECK((blocks[i] = malloc(size)) != NULL);
      for (int i = 0; i < kMany; ++i) free(blocks[round % 2 == 0 ? i : kMany - 1 - i]);
    }
  }
}

// What malloc hands out tells nothing of where other blocks lie.
CASE(links_are_not_shown) {
  void* blocks[kBlocks];
  for (int i = 0; i < kBlocks; ++i) CHECK((blocks[i] = malloc(64)) != NULL);
  for (int i = 0; i < kBlocks; ++i) free(blocks[i]);
  for (int i = 0; i < kBlocks; ++i) {
    size_t* block = (size_t*)malloc(64);
    CHECK(*(size_t*)HidePointer(block) == 0);
  }
}

// Each way to give up or resize a block, with a pointer `off` bytes into one of three neighbours.
CASE(interior) {
  const size_t size = Argument(2);
  const size_t off = Argument(4);
  char* blocks[3];
  for (int i = 0; i < 3; ++i) {
    CHECK((blocks[i] = (char*)malloc(size)) != NULL);
    Paint(blocks[i], size, (uint64_t)i);
  }
  char* inside = (char*)HidePointer(blocks[1] + off);
  errno = 0;
  if (Does("free")) free(inside);
  if (Does("realloc_to_more")) CHECK(realloc(inside, 3 * size) == NULL && errno == ENOMEM);
  if (Does("realloc_to_less")) CHECK(realloc(inside, size / 3) == NULL && errno == ENOMEM);
  if (Does("realloc_to_the_same")) CHECK(realloc(inside, size) == NULL && errno == ENOMEM);
  if (Does("realloc_to_nothing")) CHECK(realloc(inside, Hide(0)) == NULL);
  if (Does("reallocarray")) CHECK(reallocarray(inside, size, 4) == NULL && errno == ENOMEM);
  if (Does("free_sized")) free_sized(inside, size);
  if (Does("free_aligned_sized")) free_aligned_sized(inside, 16, size);
  for (int i = 0; i < 3; ++i) CHECK_AT(IsPainted(blocks[i], size, (uint64_t)i), i);
  Survive(size);
  for (int i = 0; i < 3; ++i) {
    CHECK_AT(IsPainted(blocks[i], size, (uint64_t)i), i);
    free(blocks[i]);
  }
  Survive(size);
}

// Warm caches take no pointer into the middle of a block, whatever the class and the offset: what
// malloc returns next is the block itself. With STRATA_ON_ERROR=ignore.
CASE(no_interior_pointer_is_taken) {
  enum { kWarm = 6 };
  for (size_t size = 16; size <= 256 << 10; size += size < 128 ? 16 : size / 8) {
    char* blocks[kWarm];
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < kWarm; ++i) CHECK((blocks[i] = (char*)malloc(size)) != NULL);
      if (round == 0) {
        for (int i = 0; i < kWarm; ++i) free(blocks[i]);
      }
    }
    const size_t step = size <= 4096 ? 8 : size / 64;
    for (int i = 0; i < kWarm; ++i) {
      for (size_t off = step; off < size; off += step) {
        char* inside = (char*)HidePointer(blocks[i] + off);
        free(inside);
        char* next = (char*)malloc(size);
        CHECK_AT(next != inside, (int)size);
        free(next);
      }
    }
    for (int i = 0; i < kWarm; ++i) free(blocks[i]);
    Survive(size);
  }
}
