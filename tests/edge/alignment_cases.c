// Edge behaviour of the aligned forms: memalign, aligned_alloc, posix_memalign, valloc and pvalloc,
// as glibc 2.36 has it.
#include "case.h"

static const size_t kGiB = (size_t)1 << 30;

static size_t SizesFor(size_t alignment, size_t sizes[16]) {
  const size_t fixed[] = {0, 1, 8, 10, 100, 1000, 5000, 17000, 40000, 300000};
  size_t count = 0;
  for (size_t i = 0; i < sizeof fixed / sizeof *fixed; ++i) sizes[count++] = fixed[i];
  if (alignment <= 64 << 20) {
    sizes[count++] = alignment - 1;
    sizes[count++] = alignment;
    sizes[count++] = alignment + 1;
    sizes[count++] = 3 * alignment + 5;
  }
  return count;
}

static void UseAligned(void* block, size_t alignment, size_t size) {
  CHECK_AT(block != NULL, alignment);
  CHECK_AT(((uintptr_t)block & (alignment - 1)) == 0, alignment);
  size_t usable = malloc_usable_size(block);
  CHECK_AT(usable >= size, size);
  char* bytes = (char*)block;
  if (usable > 0) {
    bytes[0] = 1;
    bytes[usable - 1] = 2;
  }
  if (size > 0) bytes[size - 1] = 3;
}

CASE(every_alignment) {
  for (size_t alignment = 8; alignment <= kGiB; alignment *= 2) {
    size_t sizes[16];
    size_t count = SizesFor(alignment, sizes);
    for (size_t i = 0; i < count; ++i) {
      void* a = memalign(alignment, sizes[i]);
      void* b = aligned_alloc(alignment, sizes[i]);
      void* c = NULL;
      CHECK_AT(posix_memalign(&c, alignment, sizes[i]) == 0, alignment);
      UseAligned(a, alignment, sizes[i]);
      UseAligned(b, alignment, sizes[i]);
      UseAligned(c, alignment, sizes[i]);
      CHECK_AT(a != b && b != c && a != c, alignment);
      free(b);
      free(a);
      free(c);
    }
  }
}

CASE(tiny_alignments) {
  for (size_t alignment = 1; alignment < 16; ++alignment) {
    for (size_t size = 0; size < 600; ++size) {
      void* a = memalign(alignment, size);
      void* b = aligned_alloc(alignment, size);
      size_t rounded = 1;
      while (rounded < alignment) rounded *= 2;
      UseAligned(a, rounded, size);
      UseAligned(b, rounded, size);
      free(a);
      free(b);
    }
  }
}

// recv into a buffer behind a header of a few bytes takes four times as long on some machines where
// the block begins as a page does (src/span/size_classes.h). A guarded block may: one at most.
CASE(large_blocks_begin_off_the_borders_of_pages) {
  size_t blocks = 0, at_border = 0;
  for (size_t power = 16384; power < 262144; power *= 2) {
    const size_t sizes[] = {power + 10, power + power / 4 + 10, power + power / 2 + 10};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
      void* kept[5];
      for (size_t k = 0; k < 5; ++k) {
        kept[k] = malloc(sizes[i]);
        CHECK_AT(kept[k] != NULL, sizes[i]);
        at_border += (uintptr_t)kept[k] % 4096 < 32;
        ++blocks;
      }
      for (size_t k = 0; k < 5; ++k) {
        char* grown = (char*)realloc(kept[k], sizes[i] + 20000);
        CHECK_AT(grown != NULL, sizes[i]);
        grown[0] = 1;
        free(grown);
      }
    }
  }
  CHECK_AT(blocks == 60 && at_border <= 1, at_border);
}

// glibc rounds an alignment that is no power of two up to one, for both functions.
CASE(bad_alignment_rounds_up) {
  const size_t asked[] = {0, 3, 24, 48, 100, 1000, 4097, 300000, ((size_t)1 << 21) + 1};
  for (size_t i = 0; i < sizeof asked / sizeof *asked; ++i) {
    size_t rounded = 1;
    while (rounded < asked[i]) rounded *= 2;
    void* a = memalign(asked[i], 100);
    void* b = aligned_alloc(asked[i], 100);
    UseAligned(a, rounded, 100);
    UseAligned(b, rounded, 100);
    free(a);
    free(b);
  }
}

CASE(absurd_alignment_fails) {
  const size_t asked[] = {SIZE_MAX, SIZE_MAX / 2 + 2, SIZE_MAX / 2 + 1, (size_t)1 << 62,
                          (size_t)1 << 48};
  for (size_t i = 0; i < sizeof asked / sizeof *asked; ++i) {
    errno = 0;
    CHECK_AT(memalign(Hide(asked[i]), 100) == NULL, i);
    CHECK_AT(errno == ENOMEM || errno == EINVAL, i);
    errno = 0;
    CHECK_AT(aligned_alloc(Hide(asked[i]), 100) == NULL, i);
    CHECK_AT(errno == ENOMEM || errno == EINVAL, i);
  }
}

CASE(absurd_size_fails) {
  const size_t asked[] = {SIZE_MAX,    SIZE_MAX - 100, SIZE_MAX - 4096, (size_t)PTRDIFF_MAX + 1,
                          PTRDIFF_MAX, (size_t)1 << 47};
  const size_t alignments[] = {1, 8, 16, 64, 4096, (size_t)1 << 21, (size_t)1 << 30};
  for (size_t i = 0; i < sizeof asked / sizeof *asked; ++i) {
    for (size_t j = 0; j < sizeof alignments / sizeof *alignments; ++j) {
      errno = 0;
      CHECK_AT(memalign(alignments[j], Hide(asked[i])) == NULL, i);
      CHECK_AT(errno == ENOMEM, i);
      errno = 0;
      CHECK_AT(aligned_alloc(alignments[j], Hide(asked[i])) == NULL, i);
      CHECK_AT(errno == ENOMEM, i);
      if (alignments[j] >= sizeof(void*)) {
        void* untouched = &errno;
        errno = 0;
        CHECK_AT(posix_memalign(&untouched, alignments[j], Hide(asked[i])) == ENOMEM, i);
        CHECK_AT(errno == ENOMEM, i);
        CHECK_AT(untouched == (void*)&errno, i);
      }
    }
  }
}

CASE(posix_memalign_bad_alignment) {
  const size_t asked[] = {0, 1, 2, 3, 4, 7, 12, 24, 100, 4095, ((size_t)1 << 30) + 8, SIZE_MAX};
  for (size_t i = 0; i < sizeof asked / sizeof *asked; ++i) {
    void* untouched = &errno;
    errno = EXDEV;
    CHECK_AT(posix_memalign(&untouched, Hide(asked[i]), 100) == EINVAL, asked[i]);
    CHECK_AT(errno == EXDEV, asked[i]);
    CHECK_AT(posix_memalign(&untouched, Hide(asked[i]), SIZE_MAX) == EINVAL, asked[i]);
    CHECK_AT(errno == EXDEV, asked[i]);
    CHECK_AT(untouched == (void*)&errno, asked[i]);
  }
}

CASE(posix_memalign_zero) {
  for (size_t alignment = 8; alignment <= 1 << 20; alignment *= 2) {
    void* block = NULL;
    CHECK_AT(posix_memalign(&block, alignment, 0) == 0, alignment);
    CHECK_AT(((uintptr_t)block & (alignment - 1)) == 0, alignment);
    free(block);
  }
}

CASE(valloc_is_page_aligned) {
  const size_t sizes[] = {0, 1, 10, 4095, 4096, 4097, 100000, 3000000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    void* block = valloc(sizes[i]);
    UseAligned(block, 4096, sizes[i]);
    free(block);
  }
  errno = 0;
  CHECK(valloc(Hide(SIZE_MAX)) == NULL && errno == ENOMEM);
}

CASE(pvalloc_rounds_to_pages) {
  const size_t sizes[] = {0, 1, 10, 4095, 4096, 4097, 100000, 3000000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    void* block = pvalloc(sizes[i]);
    UseAligned(block, 4096, (sizes[i] + 4095) / 4096 * 4096);
    free(block);
  }
}

CASE(pvalloc_too_big) {
  for (size_t less = 0; less < 3 * 4096; less += 1365) {
    errno = 0;
    CHECK_AT(pvalloc(Hide(SIZE_MAX - less)) == NULL, less);
    CHECK_AT(errno == ENOMEM, less);
  }
  errno = 0;
  CHECK(pvalloc(Hide((size_t)PTRDIFF_MAX)) == NULL && errno == ENOMEM);
}

// Aligned blocks side by side do not overlap, survive realloc, and are whole when the others go.
CASE(aligned_neighbours) {
  enum { kBlocks = 400 };
  static unsigned char* blocks[kBlocks];
  static size_t sizes[kBlocks];
  uint64_t random = 42;
  for (int i = 0; i < kBlocks; ++i) {
    size_t alignment = (size_t)8 << NextRandom(&random) % 14;
    sizes[i] = 1 + NextRandom(&random) % (i % 10 == 0 ? 70000 : 3000);
    blocks[i] = (unsigned char*)memalign(alignment, sizes[i]);
    UseAligned(blocks[i], alignment, sizes[i]);
    Paint(blocks[i], sizes[i], (uint64_t)i);
  }
  for (int i = 0; i < kBlocks; i += 3) {
    size_t next = 1 + NextRandom(&random) % 9000;
    blocks[i] = (unsigned char*)realloc(blocks[i], next);
    CHECK_AT(blocks[i] != NULL, next);
    CHECK_AT(IsPainted(blocks[i], next < sizes[i] ? next : sizes[i], (uint64_t)i), i);
    Paint(blocks[i], next, (uint64_t)i);
    sizes[i] = next;
  }
  for (int i = 1; i < kBlocks; i += 3) free(blocks[i]);
  for (int i = 0; i < kBlocks; ++i) {
    if (i % 3 == 1) continue;
    CHECK_AT(IsPainted(blocks[i], sizes[i], (uint64_t)i), i);
    free(blocks[i]);
  }
}

// Blocks with wide alignments that are freed come back: 40 GiB in all, with their pages touched.
CASE(wide_alignment_is_recycled) {
  for (int i = 0; i < 400; ++i) {
    char* block = (char*)memalign(64 << 20, 8 << 20);
    CHECK_AT(block != NULL, i);
    for (int at = 0; at < 8 << 20; at += 4096) block[at] = 1;
    free(block);
  }
}
