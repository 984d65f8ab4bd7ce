// Frees that no correct program makes. By default the process ends by SIGABRT after one line; with
// STRATA_ON_ERROR=ignore each call is a line and nothing else, and Survive() then shows that the
// heap is whole. test_bad_input.py runs each case both ways.
#include "case.h"

#include <sys/mman.h>

// Blocks of many sizes: all distinct, none overlapping, all content kept.
static void Survive(void) {
  enum { kBlocks = 3000 };
  static unsigned char* blocks[kBlocks];
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < kBlocks; ++i) {
      size_t size = (size_t)(i * 37 % 900) + (i % 50 == 0 ? 40000 : 1);
      blocks[i] = (unsigned char*)malloc(size);
      CHECK_AT(blocks[i] != NULL, size);
      Paint(blocks[i], size, (uint64_t)i);
    }
    for (int i = 0; i < kBlocks; ++i) {
      size_t size = (size_t)(i * 37 % 900) + (i % 50 == 0 ? 40000 : 1);
      CHECK_AT(IsPainted(blocks[i], size, (uint64_t)i), i);
      free(blocks[i]);
    }
  }
}

// Many blocks of one size: no address may come twice.
static void NoneTwice(size_t size) {
  enum { kBlocks = 500 };
  static unsigned char* blocks[kBlocks];
  for (int i = 0; i < kBlocks; ++i) {
    blocks[i] = (unsigned char*)malloc(size);
    CHECK(blocks[i] != NULL);
    memset(blocks[i], 0, size < 4096 ? size : 4096);
    memcpy(blocks[i], &i, sizeof i);
  }
  for (int i = 0; i < kBlocks; ++i) {
    CHECK_AT(memcmp(blocks[i], &i, sizeof i) == 0, i);
    free(blocks[i]);
  }
}

CASE(stack_address) {
  char local[64] __attribute__((aligned(64)));
  free(HidePointer(local));
  Survive();
}

CASE(static_address) {
  static char data[64] __attribute__((aligned(64)));
  free(HidePointer(data));
  Survive();
}

CASE(mapped_page) {
  void* page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED);
  free(page);
  Survive();
}

CASE(low_address) {
  free(HidePointer((void*)(uintptr_t)0x1000));
  Survive();
}

CASE(high_address) {
  free(HidePointer((void*)(uintptr_t)0xFFFF800000001000ULL));
  Survive();
}

CASE(misaligned_small) {
  char* block = (char*)malloc(100);
  Paint(block, 100, 3);
  free(HidePointer(block + 1));
  free(HidePointer(block + 3));
  CHECK(IsPainted(block, 100, 3));
  free(block);
  Survive();
}

CASE(misaligned_large) {
  char* block = (char*)malloc(3 << 20);
  Paint(block, 3 << 20, 3);
  free(HidePointer(block + 5));
  CHECK(IsPainted(block, 3 << 20, 3));
  free(block);
  Survive();
}

CASE(interior_large) {
  char* block = (char*)malloc(3 << 20);
  Paint(block, 3 << 20, 3);
  free(HidePointer(block + (1 << 20)));
  CHECK(IsPainted(block, 3 << 20, 3));
  free(block);
  Survive();
}

CASE(interior_small) {
  char* block = (char*)malloc(1000);
  Paint(block, 1000, 3);
  free(HidePointer(block + 48));
  CHECK(IsPainted(block, 1000, 3));
  free(block);
  Survive();
}

static void DoubleFree(size_t size) {
  void* before = malloc(size);
  char* block = (char*)malloc(size);
  CHECK(before != NULL && block != NULL);
  free(block);
  free(HidePointer(block));
  NoneTwice(size);
  free(before);
  Survive();
}

CASE(double_free_8) { DoubleFree(8); }
CASE(double_free_64) { DoubleFree(64); }
CASE(double_free_1000) { DoubleFree(1000); }
CASE(double_free_30000) { DoubleFree(30000); }
CASE(double_free_1MiB) { DoubleFree(1 << 20); }
CASE(double_free_64MiB) {
  char* block = (char*)malloc(64 << 20);
  CHECK(block != NULL);
  free(block);
  free(HidePointer(block));
  Survive();
}

CASE(realloc_foreign) {
  char local[64] __attribute__((aligned(64)));
  errno = 0;
  void* block = realloc(HidePointer(local), 200);
  free(block == (void*)local ? NULL : block);
  Survive();
}

CASE(usable_size_of_foreign) {
  char local[64] __attribute__((aligned(64)));
  CHECK(malloc_usable_size(HidePointer(local)) == 0);
  Survive();
}

// Only with STRATA_ON_ERROR=ignore: ten bad frees in a row.
CASE(many) {
  char local[64] __attribute__((aligned(64)));
  for (int i = 0; i < 10; ++i) free(HidePointer(local));
  Survive();
}

// Only a debug library checks these.
extern void free_sized(void*, size_t) __attribute__((weak));

CASE(wrong_sized_free) {
  CHECK(free_sized != NULL);
  free_sized(malloc(1000), 10);
  Survive();
}
