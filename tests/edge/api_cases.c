// Edge behaviour of malloc, calloc, realloc, reallocarray and free, as glibc 2.36 and POSIX have
// it. Each case is one row of the table in test_api.py.
#include "case.h"

enum { kMiB = 1 << 20 };

// Every size up to 2 KiB, then about 40 a doubling up to 48 MiB: each size class, the sizes on both
// sides of it, and large blocks.
static size_t NextSize(size_t size) { return size < 2048 ? size + 1 : size + size / 40 + 1; }

CASE(malloc_zero) {
  void* first = malloc(0);
  void* second = malloc(0);
  CHECK(first != NULL && second != NULL && first != second);
  free(first);
  free(second);
}

CASE(malloc_too_big) {
  const size_t sizes[] = {SIZE_MAX,        SIZE_MAX - 1,
                          SIZE_MAX - 4096, (size_t)PTRDIFF_MAX + 1,
                          PTRDIFF_MAX,     (size_t)PTRDIFF_MAX - 4096,
                          (size_t)1 << 62, (size_t)1 << 47};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    errno = 0;
    CHECK_AT(malloc(Hide(sizes[i])) == NULL, sizes[i]);
    CHECK_AT(errno == ENOMEM, sizes[i]);
    errno = 0;
    CHECK_AT(calloc(Hide(sizes[i]), 1) == NULL, sizes[i]);
    CHECK_AT(errno == ENOMEM, sizes[i]);
  }
  void* after = malloc(100);
  CHECK(after != NULL);
  free(after);
}

CASE(calloc_overflow) {
  const size_t pairs[][2] = {{SIZE_MAX / 2 + 1, 2},
                             {2, SIZE_MAX / 2 + 1},
                             {SIZE_MAX, SIZE_MAX},
                             {(size_t)1 << 32, (size_t)1 << 32},
                             {((size_t)1 << 32) + 1, ((size_t)1 << 32) + 1},
                             {SIZE_MAX / 16 + 1, 16},
                             {(size_t)PTRDIFF_MAX / 8 + 1, 8}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; ++i) {
    errno = 0;
    CHECK_AT(calloc(Hide(pairs[i][0]), Hide(pairs[i][1])) == NULL, i);
    CHECK_AT(errno == ENOMEM, i);
  }
}

CASE(calloc_zero) {
  void* a = calloc(0, 8);
  void* b = calloc(8, 0);
  void* c = calloc(0, SIZE_MAX);
  CHECK(a != NULL && b != NULL && c != NULL && a != b && b != c);
  free(a);
  free(b);
  free(c);
}

static int IsZero(const unsigned char* bytes, size_t size) {
  return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

CASE(calloc_zeroes_recycled) {
  enum { kBatch = 12 };
  void* blocks[kBatch];
  for (size_t size = 1; size < 48 * kMiB; size = NextSize(size)) {
    int batch = size < 64 * 1024 ? kBatch : 1;
    for (int i = 0; i < batch; ++i) {
      blocks[i] = malloc(size);
      CHECK_AT(blocks[i] != NULL, size);
      memset(blocks[i], 0xA5, malloc_usable_size(blocks[i]));
    }
    for (int i = 0; i < batch; ++i) free(blocks[i]);
    for (int i = 0; i < batch; ++i) {
      blocks[i] = i % 2 == 0 ? calloc(1, size) : calloc(size, 1);
      CHECK_AT(blocks[i] != NULL, size);
      CHECK_AT(IsZero((unsigned char*)blocks[i], size), size);
    }
    for (int i = 0; i < batch; ++i) free(blocks[i]);
  }
}

CASE(reallocarray_overflow) {
  char* block = (char*)malloc(100);
  Paint(block, 100, 1);
  errno = 0;
  CHECK(reallocarray(block, Hide(SIZE_MAX / 2 + 1), 2) == NULL);
  CHECK(errno == ENOMEM);
  errno = 0;
  CHECK(reallocarray(NULL, Hide(SIZE_MAX), Hide(SIZE_MAX)) == NULL);
  CHECK(errno == ENOMEM);
  CHECK(IsPainted(block, 100, 1));
  block = (char*)reallocarray(block, 1000, 7);
  CHECK(block != NULL && malloc_usable_size(block) >= 7000);
  CHECK(IsPainted(block, 100, 1));
  free(block);
}

CASE(realloc_null) {
  for (size_t size = 0; size < 4 * kMiB; size = NextSize(size)) {
    void* block = realloc(NULL, size);
    CHECK_AT(block != NULL, size);
    CHECK_AT(malloc_usable_size(block) >= size, size);
    Paint(block, size < 4096 ? size : 4096, size);
    free(block);
  }
}

CASE(realloc_zero_frees) {
  // 12 GiB in all if realloc(p, 0) did not free.
  for (int i = 0; i < 200000; ++i) {
    char* block = (char*)malloc(64 * 1024);
    CHECK(block != NULL);
    memset(block, 1, 64 * 1024);
    CHECK(realloc(block, Hide(0)) == NULL);
    if (i % 1000 == 0) CHECK_AT(PeakResidentKiB() < 64 * 1024, i);
  }
}

CASE(realloc_too_big_keeps_block) {
  for (size_t size = 1; size < 4 * kMiB; size = size * 3 + 1) {
    char* block = (char*)malloc(size);
    Paint(block, size, size);
    errno = 0;
    CHECK_AT(realloc(block, Hide(SIZE_MAX)) == NULL, size);
    CHECK_AT(errno == ENOMEM, size);
    errno = 0;
    CHECK_AT(realloc(block, Hide((size_t)PTRDIFF_MAX + 1)) == NULL, size);
    CHECK_AT(errno == ENOMEM, size);
    CHECK_AT(IsPainted(block, size, size), size);
    free(block);
  }
}

CASE(realloc_grows_and_shrinks) {
  // Step by step: through every class up, then down.
  size_t size = 1;
  char* block = (char*)malloc(size);
  Paint(block, size, 5);
  while (size < 6 * kMiB) {
    size_t next = NextSize(size);
    block = (char*)realloc(block, next);
    CHECK_AT(block != NULL && malloc_usable_size(block) >= next, next);
    CHECK_AT(IsPainted(block, size, 5), next);
    Paint(block, next, 5);
    size = next;
  }
  while (size > 1) {
    size_t next = size < 2048 ? size - 1 : size - size / 40;
    block = (char*)realloc(block, next);
    CHECK_AT(block != NULL && malloc_usable_size(block) >= next, next);
    CHECK_AT(IsPainted(block, next, 5), next);
    size = next;
  }
  free(block);
}

CASE(realloc_jumps) {
  // From every size to every other.
  size_t sizes[64];
  int count = 0;
  for (size_t power = 8; power <= 2 * kMiB; power *= 2) {
    sizes[count++] = power;
    sizes[count++] = power + 1;
    sizes[count++] = power + power / 2 - 1;
  }
  for (int from = 0; from < count; ++from) {
    for (int to = 0; to < count; ++to) {
      size_t common = sizes[from] < sizes[to] ? sizes[from] : sizes[to];
      char* block = (char*)malloc(sizes[from]);
      Paint(block, common, (uint64_t)to);
      block = (char*)realloc(block, sizes[to]);
      CHECK_AT(block != NULL, sizes[to]);
      CHECK_AT(IsPainted(block, common, (uint64_t)to), sizes[to]);
      CHECK_AT(malloc_usable_size(block) >= sizes[to], sizes[to]);
      block[sizes[to] - 1] = 1;
      free(block);
    }
  }
}

// Two large blocks that grow in turn past small ones, with a stamp on each page: a resize in place
// may not run into the neighbour, a resize by moving pages may not lose one.
CASE(realloc_large_neighbours) {
  enum { kPage = 4096 };
  size_t size = kMiB;
  char* fences[64];
  int fence_count = 0;
  char* blocks[2] = {NULL, NULL};
  while (size < 200u * kMiB) {
    size_t next = size + size / 3 + 4096 * 3 + 7;
    for (int which = 0; which < 2; ++which) {
      char* grown = (char*)realloc(blocks[which], next);
      CHECK_AT(grown != NULL, next);
      for (size_t at = 0; at < size && blocks[which] != NULL; at += kPage) {
        CHECK_AT((unsigned char)grown[at] == PatternByte((uint64_t)which, at), at);
      }
      for (size_t at = 0; at < next; at += kPage) {
        grown[at] = (char)PatternByte((uint64_t)which, at);
      }
      grown[next - 1] = 7;
      blocks[which] = grown;
      fences[fence_count] = (char*)malloc(3000);
      Paint(fences[fence_count], 3000, (uint64_t)fence_count);
      ++fence_count;
    }
    size = next;
  }
  while (size > kMiB) {
    size_t next = size / 2 + 11;
    for (int which = 0; which < 2; ++which) {
      blocks[which] = (char*)realloc(blocks[which], next);
      CHECK_AT(blocks[which] != NULL, next);
      for (size_t at = 0; at < next; at += kPage) {
        CHECK_AT((unsigned char)blocks[which][at] == PatternByte((uint64_t)which, at), at);
      }
    }
    size = next;
  }
  for (int i = 0; i < fence_count; ++i) {
    CHECK_AT(IsPainted(fences[i], 3000, (uint64_t)i), i);
    free(fences[i]);
  }
  free(blocks[0]);
  free(blocks[1]);
}

// Where a block can't grow in place, its pages go along: there are never two of them. Under a
// filter from outside (a container's) they are copied instead.
CASE(realloc_moves_pages) {
  char status[4096] = "";
  const int file = open("/proc/self/status", O_RDONLY);
  if (file < 0 || read(file, status, sizeof status - 1) <= 0) return;
  close(file);
  if (strstr(status, "Seccomp:\t0") == NULL || strstr(status, "VmLck:\t       0") == NULL) return;
  size_t size = 24u * kMiB;
  char* block = (char*)malloc(size);
  memset(block, 1, size);
  void* fences[16];
  int moves = 0;
  for (int i = 0; i < 16; ++i) {
    fences[i] = malloc(300 << 10);
    const size_t next = size + size / 8;
    char* grown = (char*)realloc(block, next);
    CHECK_AT(grown != NULL, next);
    moves += grown != block;
    for (size_t at = 0; at < size; at += 4096) CHECK_AT(grown[at] == 1, at);
    memset(grown + size, 1, next - size);
    block = grown;
    size = next;
  }
  CHECK_AT(moves != 0, moves);
  CHECK_AT((size_t)PeakResidentKiB() < (size + size / 8) / 1024 + 16 * 1024, PeakResidentKiB());
  for (int i = 0; i < 16; ++i) free(fences[i]);
  free(block);
}

CASE(realloc_shrink_gives_back) {
  // A large block cut to a small one must not keep its pages: 40 of 32 MiB cut to 1 KiB.
  char* kept[40];
  for (int i = 0; i < 40; ++i) {
    kept[i] = (char*)malloc(32 * kMiB);
    CHECK(kept[i] != NULL);
    memset(kept[i], i, 32 * kMiB);
    kept[i] = (char*)realloc(kept[i], 1024);
    CHECK(kept[i] != NULL && kept[i][0] == i && kept[i][1023] == i);
  }
  CHECK_AT(PeakResidentKiB() < 160 * 1024, PeakResidentKiB());
  for (int i = 0; i < 40; ++i) free(kept[i]);
}

CASE(errno_kept_on_success) {
  for (size_t size = 0; size < 48 * kMiB; size = NextSize(size)) {
    errno = 1234;
    void* a = malloc(size);
    void* b = calloc(1, size < 4 * kMiB ? size : 1);
    void* c = realloc(NULL, size);
    c = realloc(c, size + 100);
    void* d = memalign(64, size);
    CHECK_AT(a != NULL && b != NULL && c != NULL && d != NULL, size);
    CHECK_AT(malloc_usable_size(a) >= size, size);
    CHECK_AT(errno == 1234, size);
    free(a);
    free(b);
    free(c);
    free(d);
    CHECK_AT(errno == 1234, size);
  }
}

CASE(free_keeps_errno) {
  enum { kBatch = 300 };
  static void* blocks[kBatch];
  for (size_t size = 0; size < 64u * kMiB; size = size * 3 / 2 + 1) {
    int batch = size < 32 * 1024 ? kBatch : 4;
    for (int i = 0; i < batch; ++i) blocks[i] = malloc(size);
    errno = EXDEV;
    for (int i = 0; i < batch; ++i) free(blocks[i]);
    CHECK_AT(errno == EXDEV, size);
  }
  free(NULL);
  CHECK(errno == EXDEV);
}

CASE(usable_size) {
  enum { kBatch = 8 };
  CHECK(malloc_usable_size(NULL) == 0);
  for (size_t size = 0; size < 2 * kMiB; size = NextSize(size)) {
    void* blocks[kBatch];
    int batch = size < 16 * 1024 ? kBatch : 2;
    for (int i = 0; i < batch; ++i) {
      blocks[i] = malloc(size);
      CHECK_AT(blocks[i] != NULL, size);
      CHECK_AT(malloc_usable_size(blocks[i]) >= size, size);
      Paint(blocks[i], malloc_usable_size(blocks[i]), size + (size_t)i);
    }
    for (int i = 0; i < batch; ++i) {
      CHECK_AT(IsPainted(blocks[i], malloc_usable_size(blocks[i]), size + (size_t)i), size);
      free(blocks[i]);
    }
  }
}

CASE(malloc_alignment) {
  for (size_t size = 0; size < 48 * kMiB; size = NextSize(size)) {
    void* blocks[5];
    uintptr_t mask = size >= 16 ? 15 : 7;
    for (int i = 0; i < 5; ++i) {
      blocks[i] = i % 2 == 0 ? malloc(size) : realloc(NULL, size);
      CHECK_AT(((uintptr_t)blocks[i] & mask) == 0, size);
    }
    for (int i = 0; i < 5; ++i) free(blocks[i]);
  }
}
