// Random malloc, calloc, realloc, aligned and free calls from several threads, beside a model:
// every block is painted over its whole usable size and checked before it is resized, freed, or
// freed by another thread; at the end all live blocks are compared for overlap. Usage: shadow run
// SEED OPERATIONS THREADS MAX_SIZE
#include "case.h"

#include <pthread.h>

enum { kSlots = 1200, kMaxThreads = 16 };

struct Slot {
  pthread_mutex_t lock;
  unsigned char* block;
  size_t asked;
  uint64_t paint;
};

static struct Slot slots[kSlots];
static uint64_t seed;
static long operations;
static size_t max_size;

// Mostly small, some medium, a few from the whole range, spread evenly over the doublings.
static size_t DrawSize(uint64_t* random) {
  uint64_t kind = NextRandom(random) % 100;
  size_t bound = kind < 70 ? 1024 : kind < 97 ? 32 * 1024 : max_size;
  if (bound > max_size) bound = max_size;
  while (bound > 16 && NextRandom(random) % 3 != 0) bound /= 2;
  return NextRandom(random) % (bound + 1);
}

static void Adopt(struct Slot* slot, void* block, size_t size, uint64_t paint) {
  CHECK_AT(block != NULL, size);
  CHECK_AT(((uintptr_t)block & (size >= 16 ? 15 : 7)) == 0, size);
  CHECK_AT(malloc_usable_size(block) >= size, size);
  slot->block = (unsigned char*)block;
  slot->asked = size;
  slot->paint = paint;
  Paint(block, malloc_usable_size(block), paint);
}

static void CheckSlot(const struct Slot* slot) {
  CHECK_AT(IsPainted(slot->block, malloc_usable_size(slot->block), slot->paint), slot->asked);
}

static void Fill(struct Slot* slot, uint64_t* random) {
  size_t size = DrawSize(random);
  uint64_t paint = NextRandom(random);
  switch (NextRandom(random) % 8) {
    case 0: {
      unsigned char* block = (unsigned char*)calloc(size, 1);
      CHECK_AT(block != NULL, size);
      for (size_t i = 0; i < size; ++i) CHECK_AT(block[i] == 0, size);
      Adopt(slot, block, size, paint);
      break;
    }
    case 1: {
      size_t alignment = (size_t)16 << NextRandom(random) % 10;
      void* block = NULL;
      CHECK_AT(posix_memalign(&block, alignment, size) == 0, size);
      CHECK_AT(((uintptr_t)block & (alignment - 1)) == 0, alignment);
      Adopt(slot, block, size, paint);
      break;
    }
    case 2:
      Adopt(slot, realloc(NULL, size), size, paint);
      break;
    default:
      Adopt(slot, malloc(size), size, paint);
  }
}

static void Resize(struct Slot* slot, uint64_t* random) {
  size_t size = DrawSize(random) + 1;
  size_t common = size < slot->asked ? size : slot->asked;
  unsigned char* block = (unsigned char*)realloc(slot->block, size);
  CHECK_AT(block != NULL, size);
  CHECK_AT(IsPainted(block, common, slot->paint), size);
  Adopt(slot, block, size, slot->paint);
}

static void* Work(void* number) {
  uint64_t random = (seed + (uint64_t)(uintptr_t)number + 1) * 0x9E3779B97F4A7C15ULL;
  for (long i = 0; i < operations; ++i) {
    struct Slot* slot = &slots[NextRandom(&random) % kSlots];
    pthread_mutex_lock(&slot->lock);
    if (slot->block == NULL) {
      Fill(slot, &random);
    } else {
      CheckSlot(slot);
      if (NextRandom(&random) % 4 == 0) {
        Resize(slot, &random);
      } else {
        free(slot->block);
        slot->block = NULL;
      }
    }
    pthread_mutex_unlock(&slot->lock);
  }
  return NULL;
}

static int ByAddress(const void* left, const void* right) {
  const unsigned char* a = ((const struct Slot*)left)->block;
  const unsigned char* b = ((const struct Slot*)right)->block;
  return a < b ? -1 : a > b;
}

CASE(run) {
  CHECK(case_argc == 6);
  seed = strtoull(case_argv[2], NULL, 10);
  operations = strtol(case_argv[3], NULL, 10);
  long threads = strtol(case_argv[4], NULL, 10);
  max_size = strtoull(case_argv[5], NULL, 10);
  CHECK(threads >= 1 && threads <= kMaxThreads);
  for (int i = 0; i < kSlots; ++i) pthread_mutex_init(&slots[i].lock, NULL);
  pthread_t ids[kMaxThreads];
  for (long i = 0; i < threads; ++i) {
    CHECK(pthread_create(&ids[i], NULL, Work, (void*)(uintptr_t)i) == 0);
  }
  for (long i = 0; i < threads; ++i) pthread_join(ids[i], NULL);

  static struct Slot live[kSlots];
  int count = 0;
  for (int i = 0; i < kSlots; ++i) {
    if (slots[i].block != NULL) live[count++] = slots[i];
  }
  qsort(live, (size_t)count, sizeof *live, ByAddress);
  for (int i = 0; i < count; ++i) {
    CheckSlot(&live[i]);
    if (i > 0) {
      CHECK(live[i - 1].block + malloc_usable_size(live[i - 1].block) <= live[i].block);
    }
  }
  for (int i = 0; i < count; ++i) free(live[i].block);
}
