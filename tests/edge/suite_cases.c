// What the test suites of mimalloc, jemalloc, snmalloc and tcmalloc ask of the C functions, beyond
// the other tables here: the far end of the sizes step by step, resizing between every pair of
// sizes, the first call of a thread of every kind, blocks that other threads free and resize.
#include "case.h"

enum { kMiB = 1 << 20 };

static void ExpectNoMemory(void* block, size_t size) {
  CHECK_AT(block == NULL, size);
  CHECK_AT(errno == ENOMEM, size);
  errno = 0;
}

// Every function refuses `size`, says ENOMEM, and leaves what it was to resize or to set alone.
static void ExpectTooLarge(size_t size, char* block) {
  const size_t align = (size_t)16 << (size & 15);
  void* untouched = block;
  errno = 0;
  ExpectNoMemory(malloc(Hide(size)), size);
  ExpectNoMemory(calloc(1, Hide(size)), size);
  ExpectNoMemory(calloc(Hide(size), 1), size);
  ExpectNoMemory(realloc(NULL, Hide(size)), size);
  ExpectNoMemory(realloc(block, Hide(size)), size);
  ExpectNoMemory(reallocarray(block, Hide(size), 1), size);
  ExpectNoMemory(reallocarray(NULL, 1, Hide(size)), size);
  ExpectNoMemory(memalign(align, Hide(size)), size);
  ExpectNoMemory(aligned_alloc(align, Hide(size)), size);
  ExpectNoMemory(valloc(Hide(size)), size);
  ExpectNoMemory(pvalloc(Hide(size)), size);
  CHECK_AT(posix_memalign(&untouched, align, Hide(size)) == ENOMEM && errno == ENOMEM, size);
  CHECK_AT(untouched == block, size);
}

CASE(enormous_sizes) {
  char* block = (char*)malloc(16);
  Paint(block, 16, 1);
  for (size_t i = 0; i < 70000; i += 1 + i % 19) ExpectTooLarge(SIZE_MAX - i, block);
  for (size_t i = 0; i < 2000; ++i) ExpectTooLarge((size_t)PTRDIFF_MAX + 1 + i, block);
  for (size_t i = 0; i < 2000; ++i) ExpectTooLarge((size_t)PTRDIFF_MAX - i, block);
  for (size_t bits = 48; bits < 64; ++bits) ExpectTooLarge((size_t)1 << bits, block);
  CHECK(IsPainted(block, 16, 1));
  free(block);
}

// Products that wrap around to something small, and those that only just pass the largest size.
CASE(enormous_products) {
  char* block = (char*)malloc(16);
  Paint(block, 16, 1);
  for (size_t bits = 1; bits < 64; ++bits) {
    const size_t one = (size_t)1 << bits;
    const size_t other = SIZE_MAX / one + 1;
    for (size_t more = 0; more < 3; ++more) {
      errno = 0;
      ExpectNoMemory(calloc(Hide(one), Hide(other + more)), bits);
      ExpectNoMemory(calloc(Hide(other + more), Hide(one)), bits);
      ExpectNoMemory(reallocarray(block, Hide(one), Hide(other + more)), bits);
      ExpectNoMemory(reallocarray(NULL, Hide(other + more), Hide(one)), bits);
      ExpectNoMemory(calloc(Hide((size_t)PTRDIFF_MAX / one + 1 + more), Hide(one)), bits);
    }
  }
  CHECK(IsPainted(block, 16, 1));
  free(block);
}

CASE(empty_products) {
  const size_t pairs[][2] = {{0, 0}, {0, 1}, {1000, 0}, {0, SIZE_MAX}, {SIZE_MAX, 0}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; ++i) {
    errno = 0;
    void* cleared = calloc(Hide(pairs[i][0]), Hide(pairs[i][1]));
    void* array = reallocarray(NULL, Hide(pairs[i][0]), Hide(pairs[i][1]));
    CHECK_AT(cleared != NULL && array != NULL && cleared != array && errno == 0, i);
    CHECK_AT(malloc_usable_size(cleared) <= 32, i);
    free(cleared);
    free(array);
  }
}

enum { kEnd = 300 };

// The first and the last bytes of a block, which is as far as these look.
static void PaintEnds(char* block, size_t size, size_t seed) {
  const size_t n = size < kEnd ? size : kEnd;
  Paint(block, n, seed);
  Paint(block + size - n, n, seed + 1);
  Paint(block, n, seed);
}

static int StartIsPainted(const char* block, size_t size, size_t seed) {
  return IsPainted(block, size < kEnd ? size : kEnd, seed);
}

CASE(resizes_between_every_pair) {
  enum { kBits = 23 };
  for (size_t from = 0; from < 2 * kBits; ++from) {
    for (size_t to = 0; to < 2 * kBits; ++to) {
      const size_t old_size = ((size_t)1 << (from / 2)) + from % 2;
      const size_t size = ((size_t)1 << (to / 2)) + to % 2;
      char* block = (char*)malloc(old_size);
      CHECK_AT(block != NULL, old_size);
      PaintEnds(block, old_size, from);
      errno = 0;
      block = (char*)realloc(block, size);
      CHECK_AT(block != NULL && errno == 0 && malloc_usable_size(block) >= size, size);
      CHECK_AT(StartIsPainted(block, size < old_size ? size : old_size, from), size);
      PaintEnds(block, size, to);
      free(block);
    }
  }
}

CASE(resizes_aligned_blocks) {
  uint64_t random = 42;
  enum { kBlocks = 300 };
  char* blocks[kBlocks];
  size_t sizes[kBlocks];
  for (size_t i = 0; i < kBlocks; ++i) {
    const size_t align = (size_t)8 << NextRandom(&random) % 12;
    sizes[i] = 1 + NextRandom(&random) % ((size_t)1 << (1 + i % 20));
    void* got = NULL;
    if (i % 3 == 0) got = memalign(align, sizes[i]);
    if (i % 3 == 1) got = aligned_alloc(align, sizes[i]);
    if (i % 3 == 2) CHECK_AT(posix_memalign(&got, align, sizes[i]) == 0, i);
    CHECK_AT(got != NULL && (uintptr_t)got % align == 0, i);
    blocks[i] = (char*)got;
    PaintEnds(blocks[i], sizes[i], i);
  }
  for (size_t i = 0; i < kBlocks; ++i) {
    const size_t size = 1 + NextRandom(&random) % ((size_t)1 << (1 + i % 20));
    blocks[i] = (char*)realloc(blocks[i], size);
    CHECK_AT(blocks[i] != NULL, i);
    CHECK_AT(StartIsPainted(blocks[i], size < sizes[i] ? size : sizes[i], i), i);
  }
  for (size_t i = 0; i < kBlocks; ++i) free(blocks[i]);
}

// A stair of small steps, over and over, with the step to nothing that frees the block.
CASE(resizes_along_a_stair) {
  char* block = NULL;
  for (int round = 0; round < 40; ++round) {
    for (size_t step = 0; step < 1024; ++step) {
      block = (char*)realloc(block, Hide(step * 64));
      CHECK_AT((block == NULL) == (step == 0 && round != 0), step);
      if (step == 0) continue;
      CHECK_AT(step == 1 || block[(step - 1) * 64 - 1] == (char)(step - 1), step);
      block[step * 64 - 1] = (char)step;
    }
  }
  free(block);
}

// A block of 8 MiB that grows to 128 MiB and back keeps a mark on every page it ever had.
CASE(resizes_a_huge_block) {
  enum { kStep = 1 << 16 };
  size_t marked = 0;
  char* block = NULL;
  for (size_t size = 8 * kMiB; size <= 128 * kMiB; size += 15 * kMiB) {
    block = (char*)realloc(block, size);
    CHECK_AT(block != NULL, size);
    for (size_t at = 0; at < marked; at += kStep) CHECK_AT(*(size_t*)(block + at) == at + 1, at);
    for (; marked < size; marked += kStep) *(size_t*)(block + marked) = marked + 1;
  }
  for (size_t size = 128 * kMiB; size > kMiB; size /= 3) {
    block = (char*)realloc(block, size);
    CHECK_AT(block != NULL, size);
    for (size_t at = 0; at + 8 <= size; at += kStep) CHECK_AT(*(size_t*)(block + at) == at + 1, at);
  }
  free(block);
}

CASE(every_small_size_in_every_alignment) {
  enum { kEach = 6 };
  for (size_t size = 1; size <= 2048; size += 1 + size / 100) {
    for (size_t align = 1; align <= size; align *= 2) {
      char* blocks[kEach];
      for (int i = 0; i < kEach; ++i) {
        blocks[i] = (char*)memalign(align, size);
        CHECK_AT(blocks[i] != NULL && (uintptr_t)blocks[i] % align == 0, size);
        memset(blocks[i], i, size);
      }
      for (int i = 0; i < kEach; ++i) {
        CHECK_AT(blocks[i][0] == i && blocks[i][size - 1] == i, size);
        free(blocks[i]);
      }
    }
  }
}

// All alignments up to 256 MiB live at once, with sizes from none to more than the alignment.
CASE(wide_alignments_live_together) {
  const size_t sizes[] = {0, 8, 512, kMiB, 4 * kMiB + 1};
  enum { kSizes = sizeof sizes / sizeof *sizes, kShifts = 29 };
  static char* blocks[kShifts][kSizes];
  for (size_t shift = 0; shift < kShifts; ++shift) {
    for (size_t i = 0; i < kSizes; ++i) {
      char* block = (char*)memalign((size_t)1 << shift, sizes[i]);
      CHECK_AT(block != NULL && (uintptr_t)block % ((size_t)1 << shift) == 0, shift);
      if (sizes[i] != 0) block[0] = block[sizes[i] - 1] = (char)shift;
      blocks[shift][i] = block;
    }
  }
  for (size_t shift = 0; shift < kShifts; ++shift) {
    for (size_t i = 0; i < kSizes; ++i) {
      char* block = blocks[shift][i];
      if (sizes[i] != 0) CHECK_AT(block[0] == (char)shift && block[sizes[i] - 1] == (char)shift, i);
      free(block);
    }
  }
}

// More objects of one size than a 16-bit count holds.
CASE(seventy_thousand_of_a_size) {
  enum { kMany = 70000 };
  static uint32_t* blocks[kMany];
  for (int round = 0; round < 3; ++round) {
    for (uint32_t i = 0; i < kMany; ++i) {
      blocks[i] = (uint32_t*)malloc(10);
      CHECK_AT(blocks[i] != NULL, i);
      *blocks[i] = i;
    }
    for (uint32_t i = 0; i < kMany; ++i) {
      CHECK_AT(*blocks[i] == i, i);
      free(blocks[i]);
    }
  }
}

// ---- threads

static const size_t kSizes[] = {0, 1, 16, 100, 1000, 4097, 30000, 300000, 3 * kMiB};
enum { kNumSizes = sizeof kSizes / sizeof *kSizes, kFirsts = 9 };

struct First {
  int what;
  size_t size;
  char* block;
};

// The first that its thread asks of the allocator.
static void* DoFirst(void* arg) {
  struct First* first = (struct First*)arg;
  const size_t size = first->size;
  char* block = first->block;
  void* got = NULL;
  switch (first->what) {
    case 0:
      free(block);
      got = malloc(size);
      break;
    case 1:
      got = realloc(block, size + 5000);
      CHECK_AT(IsPainted(got, size, size), size);
      break;
    case 2:
      got = realloc(block, size / 2 + 1);
      CHECK_AT(IsPainted(got, size / 2, size), size);
      break;
    case 3:
      CHECK_AT(malloc_usable_size(block) >= size, size);
      free(block);
      got = calloc(1, size);
      for (size_t i = 0; i < size; ++i) CHECK_AT(((char*)got)[i] == 0, i);
      break;
    case 4:
      CHECK_AT(posix_memalign(&got, 64, size) == 0, size);
      free(block);
      break;
    case 5:
      got = valloc(size);
      free(block);
      break;
    case 6:
      free(NULL);
      got = block;
      break;
    case 7:
      malloc_trim(0);
      got = block;
      break;
    default:
      errno = 0;
      ExpectNoMemory(malloc(Hide(SIZE_MAX)), size);
      got = block;
  }
  CHECK_AT(got != NULL, size);
  first->block = (char*)got;
  return NULL;
}

CASE(every_first_call_of_a_thread) {
  for (int what = 0; what < kFirsts; ++what) {
    for (int i = 0; i < kNumSizes; ++i) {
      struct First first = {what, kSizes[i], (char*)malloc(kSizes[i])};
      Paint(first.block, first.size, first.size);
      OnAnotherThread(DoFirst, &first);
      free(first.block);
    }
  }
}

static void* FreeAll(void* blocks) {
  for (char** at = (char**)blocks; *at != NULL; ++at) free(*at);
  return NULL;
}

CASE(large_blocks_freed_elsewhere) {
  for (int i = 0; i < 60; ++i) {
    char* blocks[] = {(char*)aligned_alloc(8, 2 * kMiB + 8), (char*)malloc(22085632),
                      i % 10 == 0 ? (char*)malloc((size_t)1 << 30) : NULL, NULL};
    for (char** at = blocks; *at != NULL; ++at) **at = 1;
    OnAnotherThread(FreeAll, blocks);
  }
  CHECK_AT(PeakResidentKiB() < 64 * 1024, PeakResidentKiB());
}

// Threads that allocate, check, hand over and free at random; each block tells whose it is.
enum { kWorkers = 6, kSlots = 64, kTurns = 6000 };

struct Tagged {
  size_t size;
  uint64_t seed;
};

static struct Tagged* mailbox[kSlots];
static pthread_mutex_t mail = PTHREAD_MUTEX_INITIALIZER;

static struct Tagged* MakeTagged(uint64_t* random) {
  const uint64_t draw = NextRandom(random);
  const size_t body = draw % ((size_t)1 << (4 + draw % 13));
  struct Tagged* made = (struct Tagged*)malloc(sizeof *made + body);
  CHECK(made != NULL);
  made->size = body;
  made->seed = draw;
  Paint(made + 1, body, draw);
  return made;
}

static void Discard(struct Tagged* block) {
  if (block == NULL) return;
  CHECK_AT(IsPainted(block + 1, block->size, block->seed), block->size);
  free(block);
}

static void* Trade(void* number) {
  uint64_t random = 77 + (uint64_t)(uintptr_t)number;
  struct Tagged* own[kSlots] = {NULL};
  for (int turn = 0; turn < kTurns; ++turn) {
    const size_t slot = NextRandom(&random) % kSlots;
    if (turn % 3 == 0) {
      pthread_mutex_lock(&mail);
      struct Tagged* other = mailbox[slot];
      mailbox[slot] = own[slot];
      pthread_mutex_unlock(&mail);
      own[slot] = other;
    } else {
      Discard(own[slot]);
      own[slot] = MakeTagged(&random);
    }
  }
  for (int i = 0; i < kSlots; ++i) Discard(own[i]);
  return NULL;
}

CASE(threads_trade_blocks) {
  pthread_t threads[kWorkers];
  for (uintptr_t i = 0; i < kWorkers; ++i)
    CHECK(pthread_create(&threads[i], NULL, Trade, (void*)i) == 0);
  for (int i = 0; i < kWorkers; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  for (int i = 0; i < kSlots; ++i) Discard(mailbox[i]);
}

// A value of a key whose destructor sets it anew, until the C library gives up; each is a block.
enum { kKeys = 40 };
static pthread_key_t keys[kKeys];
static int destroyed;

static void DestroyAndSet(void* value) {
  ++destroyed;
  free(value);
  void* block = calloc(1, 100);
  CHECK(block != NULL);
  if (destroyed % 2 == 0)
    free(block);
  else
    CHECK(pthread_setspecific(keys[0], block) == 0);
}

static void* SetKeys(void* unused) {
  for (int i = 0; i < kKeys; ++i) CHECK(pthread_setspecific(keys[i], malloc(50)) == 0);
  return unused;
}

CASE(key_destructors_set_values_anew) {
  for (int i = 0; i < kKeys; ++i) CHECK(pthread_key_create(&keys[i], DestroyAndSet) == 0);
  for (int i = 0; i < 20; ++i) OnAnotherThread(SetKeys, NULL);
  CHECK_AT(destroyed >= 20 * kKeys, destroyed);
}
