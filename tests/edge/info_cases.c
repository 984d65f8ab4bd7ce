// The rest of the malloc API: mallinfo, mallopt, malloc_info, malloc_stats, malloc_trim, the C23
// sized frees, cfree, which library each name resolves to, and libc functions that return blocks.
#include "case.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <wchar.h>

static long StatmKiB(void) {
  static char text[4096];
  FILE* file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL && fgets(text, sizeof text, file) != NULL);
  fclose(file);
  long virtual_pages = 0;
  long resident_pages = 0;
  CHECK(sscanf(text, "%ld %ld", &virtual_pages, &resident_pages) == 2);
  return resident_pages * 4;
}

CASE(mallinfo_follows) {
  enum { kBlocks = 1000, kSize = 100000 };
  static void* blocks[kBlocks];
  struct mallinfo2 before = mallinfo2();
  for (int i = 0; i < kBlocks; ++i) {
    blocks[i] = malloc(kSize);
    CHECK(blocks[i] != NULL);
    memset(blocks[i], 1, kSize);
  }
  struct mallinfo2 full = mallinfo2();
  CHECK(full.uordblks + full.hblkhd >= before.uordblks + before.hblkhd + 95000000);
  CHECK(full.uordblks + full.hblkhd <= before.uordblks + before.hblkhd + 150000000);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  struct mallinfo narrow = mallinfo();
#pragma GCC diagnostic pop
  size_t narrow_total = (size_t)(unsigned)narrow.uordblks + (size_t)(unsigned)narrow.hblkhd;
  CHECK(narrow_total >= 95000000 && narrow_total <= full.uordblks + full.hblkhd + 1000000);
  for (int i = 0; i < kBlocks; ++i) free(blocks[i]);
  struct mallinfo2 after = mallinfo2();
  CHECK(after.uordblks + after.hblkhd <= full.uordblks + full.hblkhd - 90000000);
}

CASE(mallinfo_counts_every_block) {
  enum { kBlocks = 500, kSize = 1000 };
  static void* blocks[kBlocks];
  struct mallinfo2 before = mallinfo2();
  for (int i = 0; i < kBlocks; ++i) CHECK((blocks[i] = malloc(kSize)) != NULL);
  struct mallinfo2 full = mallinfo2();
  CHECK(full.uordblks >= before.uordblks + kBlocks * kSize);
  CHECK(full.arena >= full.uordblks);
  for (int i = 0; i < kBlocks; ++i) free(blocks[i]);
}

CASE(mallopt_is_accepted) {
  const int parameters[] = {M_MXFAST,   M_TRIM_THRESHOLD, M_TOP_PAD,   M_MMAP_THRESHOLD,
                            M_MMAP_MAX, M_PERTURB,        M_ARENA_MAX, M_ARENA_TEST};
  for (size_t i = 0; i < sizeof parameters / sizeof *parameters; ++i) {
    int result = mallopt(parameters[i], 1);
    CHECK_AT(result == 0 || result == 1, parameters[i]);
  }
  int unknown = mallopt(-12345, 0);
  CHECK(unknown == 0 || unknown == 1);
  void* block = malloc(100);
  CHECK(block != NULL);
  free(block);
}

CASE(malloc_info_writes_xml) {
  char* text = NULL;
  size_t length = 0;
  FILE* stream = open_memstream(&text, &length);
  CHECK(stream != NULL);
  CHECK(malloc_info(0, stream) == 0);
  CHECK(fclose(stream) == 0);
  CHECK(strncmp(text, "<malloc", 7) == 0);
  CHECK(strstr(text, "</malloc>") != NULL);
  free(text);
  // glibc gives EINVAL itself, its manual says -1.
  CHECK(malloc_info(1, stderr) != 0);
}

// The only case that is meant to write: test_info.py wants text on stderr and none on stdout.
CASE(malloc_stats_speaks) { malloc_stats(); }

CASE(malloc_trim_gives_back) {
  enum { kBlocks = 120000 };
  static char* blocks[kBlocks];
  void* warm = malloc(1000);
  long before = StatmKiB();
  for (int i = 0; i < kBlocks; ++i) {
    blocks[i] = (char*)malloc(2000);
    CHECK(blocks[i] != NULL);
    memset(blocks[i], 1, 2000);
  }
  CHECK(StatmKiB() > before + 200 * 1024);
  for (int i = 0; i < kBlocks; ++i) free(blocks[i]);
  int trimmed = malloc_trim(0);
  CHECK(trimmed == 0 || trimmed == 1);
  CHECK_AT(StatmKiB() < before + 24 * 1024, StatmKiB());
  trimmed = malloc_trim(SIZE_MAX);
  CHECK(trimmed == 0 || trimmed == 1);
  free(warm);
}

typedef void (*FreeSized)(void*, size_t);
typedef void (*FreeAlignedSized)(void*, size_t, size_t);
typedef void (*Cfree)(void*);

CASE(free_sized_works) {
  FreeSized free_sized_ = (FreeSized)dlsym(RTLD_DEFAULT, "free_sized");
  FreeAlignedSized free_aligned_ = (FreeAlignedSized)dlsym(RTLD_DEFAULT, "free_aligned_sized");
  CHECK(free_sized_ != NULL && free_aligned_ != NULL);
  errno = EXDEV;
  free_sized_(NULL, 0);
  free_sized_(NULL, 100);
  free_aligned_(NULL, 64, 100);
  for (size_t size = 0; size < 40u << 20; size = size < 1100 ? size + 1 : size + size / 20) {
    char* kept = (char*)malloc(size);
    void* block = malloc(size);
    CHECK_AT(kept != NULL && block != NULL, size);
    if (size > 0) kept[size - 1] = 77;
    free_sized_(block, size);
    block = calloc(1, size < 100000 ? size : 100000);
    free_sized_(block, size < 100000 ? size : 100000);
    block = realloc(malloc(17), size + 1);
    free_sized_(block, size + 1);
    for (size_t alignment = 8; alignment <= 1 << 16; alignment *= 8) {
      block = aligned_alloc(alignment, size);
      CHECK_AT(block != NULL, size);
      free_aligned_(block, alignment, size);
    }
    CHECK_AT(size == 0 || kept[size - 1] == 77, size);
    free(kept);
    CHECK_AT(errno == EXDEV, size);
  }
}

// A realloc to a smaller size may leave the block where it was: free_sized must not take it for one
// of its new size, which shows once more of them are freed than a cache holds.
CASE(free_sized_after_realloc) {
  enum { kCount = 20000 };
  FreeSized free_sized_ = (FreeSized)dlsym(RTLD_DEFAULT, "free_sized");
  CHECK(free_sized_ != NULL);
  static void* shrunk[kCount];
  for (int i = 0; i < kCount; ++i) {
    shrunk[i] = realloc(malloc(24), 16);
    CHECK_AT(shrunk[i] != NULL, i);
  }
  for (int i = 0; i < kCount; ++i) free_sized_(shrunk[i], 16);
}

CASE(cfree_frees) {
  // 10 GiB in all if cfree did nothing.
  Cfree cfree_ = (Cfree)dlsym(RTLD_DEFAULT, "cfree");
  CHECK(cfree_ != NULL);
  long before = StatmKiB();
  for (int i = 0; i < 100000; ++i) {
    char* block = (char*)malloc(100000);
    CHECK_AT(block != NULL, i);
    block[0] = block[99999] = 1;
    cfree_(block);
  }
  cfree_(NULL);
  CHECK_AT(StatmKiB() < before + 32 * 1024, StatmKiB());
}

// argv[2] names the library, the rest the symbols: each must resolve to the library.
CASE(resolves_to) {
  for (int i = 3; i < case_argc; ++i) {
    Dl_info info;
    void* symbol = dlsym(RTLD_DEFAULT, case_argv[i]);
    if (symbol == NULL || dladdr(symbol, &info) == 0 ||
        strstr(info.dli_fname, case_argv[2]) == NULL) {
      Fail(case_argv[i], "not interposed", i);
    }
  }
}

CASE(libc_functions_that_allocate) {
  for (int round = 0; round < 200; ++round) {
    char* copy = strdup("a string");
    char* part = strndup("a longer string", 8);
    CHECK(strcmp(copy, "a string") == 0 && strcmp(part, "a longer") == 0);
    free(copy);
    free(part);
    wchar_t* wide = wcsdup(L"wide");
    CHECK(wcscmp(wide, L"wide") == 0);
    free(wide);
    char* text = NULL;
    CHECK(asprintf(&text, "%d %s %.500f", round, "x", 1.0 / 3) > 500);
    free(text);
    char* path = realpath("/proc/self/../self/exe", NULL);
    CHECK(path != NULL);
    free(path);
    char* here = getcwd(NULL, 0);
    CHECK(here != NULL);
    free(here);
    char* line = NULL;
    size_t capacity = 0;
    FILE* file = fopen("/proc/self/maps", "r");
    CHECK(file != NULL);
    while (getline(&line, &capacity, file) > 0) {
    }
    fclose(file);
    free(line);
    struct dirent** names = NULL;
    int found = scandir("/proc/self", &names, NULL, alphasort);
    CHECK(found > 10);
    for (int i = 0; i < found; ++i) free(names[i]);
    free(names);
    struct addrinfo* address = NULL;
    CHECK(getaddrinfo("127.0.0.1", "80", NULL, &address) == 0);
    freeaddrinfo(address);
    CHECK(setenv("A_VARIABLE", round % 2 == 0 ? "one" : "another value", 1) == 0);
  }
}
