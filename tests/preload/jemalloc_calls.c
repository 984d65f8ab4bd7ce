// A program that uses jemalloc's own functions beside malloc and free, as one that is linked to a
// shared jemalloc does. Which library has them is the preload's doing. Says "ok", or what is wrong.
#define _GNU_SOURCE 1  // RTLD_DEFAULT
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void* (*mallocx)(size_t, int);
static void* (*rallocx)(void*, size_t, int);
static size_t (*xallocx)(void*, size_t, size_t, int);
static size_t (*sallocx)(const void*, int);
static size_t (*nallocx)(size_t, int);
static void (*dallocx)(void*, int);
static void (*sdallocx)(void*, size_t, int);
static int (*mallctl)(const char*, void*, size_t*, void*, size_t);
static int (*nametomib)(const char*, size_t*, size_t*);
static int (*bymib)(const size_t*, size_t, void*, size_t*, void*, size_t);

enum { kZero = 0x40, kArena1 = 2 << 20, kNoCache = 1 << 8 };

#define EXPECT(what)                            \
  do {                                          \
    if (!(what)) {                              \
      printf("line %d: %s\n", __LINE__, #what); \
      exit(1);                                  \
    }                                           \
  } while (0)

static int AllAre(const unsigned char* bytes, size_t n, unsigned char value) {
  while (n != 0 && bytes[n - 1] == value) --n;
  return n == 0;
}

static const size_t kSizes[] = {1, 8, 17, 100, 4096, 5000, 20000, 40000, 200000, 300000, 3000000};
#define COUNT(array) (sizeof(array) / sizeof *(array))

// Many at once: one alone may be aligned by chance.
static void Aligned(size_t size, int align) {
  enum { kBlocks = 16 };
  void* block[kBlocks];
  for (int i = 0; i < kBlocks; ++i) {
    block[i] = mallocx(size, align | (i % 2 == 0 ? 0 : kZero));
    EXPECT(block[i] != NULL && (uintptr_t)block[i] % ((size_t)1 << align) == 0);
  }
  for (int i = 0; i < kBlocks; ++i) dallocx(block[i], align);
}

static void Sizes(void) {
  for (size_t i = 0; i < COUNT(kSizes); ++i) {
    for (int align = 0; align <= 16; align += 4) {
      const size_t size = kSizes[i];
      Aligned(size, align);
      unsigned char* p = mallocx(size, align | kArena1 | kNoCache);
      const size_t real = sallocx(p, 0);
      EXPECT(real >= size && real == malloc_usable_size(p));
      EXPECT(nallocx(size, align) >= size && nallocx(size, align) <= real);
      EXPECT(xallocx(p, size, 100, 0) == real);
      memset(p, 1, real);
      sdallocx(p, size, align);

      p = mallocx(size, align | kZero);  // that one, as a rule
      EXPECT(AllAre(p, sallocx(p, 0), 0));
      free(p);  // each library's function must know the other's blocks
    }
  }
  EXPECT(nallocx((size_t)-1, 0) == 0 && nallocx(8, 40) == 0);
  void* volatile none = mallocx(PTRDIFF_MAX, 0);
  EXPECT(none == NULL);
}

// Zeros from where a block ended, though the memory was used before.
static void GrowingZeroed(void) {
  for (size_t i = 0; i + 1 < COUNT(kSizes); ++i) {
    for (int align = 0; align <= 12; align += 6) {
      void* used[2] = {mallocx(kSizes[i], align), mallocx(kSizes[i + 1], align)};
      for (int k = 0; k < 2; ++k) memset(used[k], 9, sallocx(used[k], 0));
      for (int k = 0; k < 2; ++k) dallocx(used[k], align);
      unsigned char* p = mallocx(kSizes[i], align | kZero);
      memset(p, 7, kSizes[i]);
      const int grows = kSizes[i + 1] > sallocx(p, 0);
      p = rallocx(p, kSizes[i + 1], align | kZero);
      EXPECT(AllAre(p, kSizes[i], 7));
      EXPECT(!grows || AllAre(p + kSizes[i], sallocx(p, 0) - kSizes[i], 0));
      dallocx(p, align);
    }
  }
}

// What lay in a block lies in what it becomes, and behind it zeros are, where they were asked for.
static void Resizing(void) {
  unsigned char* p = malloc(10);
  memset(p, 7, 10);
  size_t held = 10;
  for (size_t i = 0; i < COUNT(kSizes); ++i) {
    const int align = i % 2 == 0 ? 0 : 12;
    const size_t real = sallocx(p, 0);
    memset(p + held, 7, real - held);
    p = rallocx(p, kSizes[i] + real, align | kZero);
    EXPECT((uintptr_t)p % ((size_t)1 << align) == 0);
    EXPECT(AllAre(p, real, 7) && AllAre(p + real, sallocx(p, 0) - real, 0));
    held = real;
    memset(p, 7, held);
  }
  p = rallocx(p, 30, 6);
  EXPECT((uintptr_t)p % 64 == 0 && AllAre(p, 30, 7));
  p = realloc(p, 50);
  EXPECT(AllAre(p, 30, 7));
  dallocx(p, 0);
}

static unsigned Number(const char* name) {
  unsigned number = 0;
  size_t size = sizeof number;
  EXPECT(mallctl(name, &number, &size, NULL, 0) == 0);
  return number;
}
static size_t Bytes(const char* name) {
  size_t bytes = 0;
  size_t size = sizeof bytes;
  EXPECT(mallctl(name, &bytes, &size, NULL, 0) == 0);
  return bytes;
}
static void NewEpoch(void) {
  uint64_t epoch = 1;
  size_t size = sizeof epoch;
  EXPECT(mallctl("epoch", &epoch, &size, &epoch, size) == 0);
}

// As Redis 8 finds what is wasted inside bins, ten times a second.
static size_t Wasted(unsigned arena) {
  NewEpoch();
  size_t wasted = 0;
  for (unsigned bin = 0; bin < Number("arenas.nbins"); ++bin) {
    char name[80];
    snprintf(name, sizeof name, "arenas.bin.%u.size", bin);
    const size_t object = Bytes(name);
    snprintf(name, sizeof name, "arenas.bin.%u.nregs", bin);
    const size_t in_slab = Number(name);
    snprintf(name, sizeof name, "stats.arenas.%u.bins.%u.curregs", arena, bin);
    const size_t objects = Bytes(name);
    snprintf(name, sizeof name, "stats.arenas.%u.bins.%u.curslabs", arena, bin);
    const size_t slabs = Bytes(name);
    EXPECT(slabs * in_slab >= objects);
    wasted += (slabs * in_slab - objects) * object;
  }
  return wasted;
}

static void Questions(void) {
  enum { kBlocks = 20000, kSize = 1000 };
  static void* block[kBlocks];
  for (int i = 0; i < kBlocks; ++i) block[i] = mallocx(kSize, 0);
  NewEpoch();
  EXPECT(Bytes("stats.arenas.4096.small.allocated") > kBlocks * kSize);
  const size_t large = Bytes("stats.arenas.0.large.allocated");
  void* alone = mallocx(5000000, 0);
  NewEpoch();
  EXPECT(Bytes("stats.arenas.0.large.allocated") == large + 5000000);
  dallocx(alone, 0);
  EXPECT(Bytes("stats.arenas.0.pactive") * Bytes("arenas.page") > kBlocks * kSize);
  const size_t full = Wasted(4096);
  EXPECT(full < 4 << 20);
  for (int i = 0; i < kBlocks; ++i)
    if (i % 8 != 0) dallocx(block[i], 0);
  EXPECT(Wasted(4096) > full + kBlocks * kSize / 2);

  const unsigned arena = Number("arenas.create");
  EXPECT(arena == 1 && Number("arenas.create") == 2 && Number("arenas.narenas") == 3);
  EXPECT(Wasted(arena) == 0);
  EXPECT(mallctl("arenas.create", NULL, NULL, NULL, 0) == EINVAL && Number("arenas.narenas") == 3);
  EXPECT(mallctl("arena.1.destroy", NULL, NULL, NULL, 0) == 0);
  EXPECT(mallctl("arena.7.destroy", NULL, NULL, NULL, 0) == EFAULT);
  EXPECT(mallctl("arena.0.destroy", NULL, NULL, NULL, 0) == EFAULT);
  EXPECT(mallctl("arena.3.purge", NULL, NULL, NULL, 0) == 0);  // all of them
  intptr_t decay = 10;
  EXPECT(mallctl("arena.1.dirty_decay_ms", NULL, NULL, &decay, sizeof decay) == 0);
  size_t bytes;
  size_t size = sizeof bytes;
  EXPECT(mallctl("stats.arenas.77.pactive", &bytes, &size, NULL, 0) == ENOENT);
  EXPECT(mallctl("arenas.bin.9999.size", &bytes, &size, NULL, 0) == ENOENT);
  const char* far = "stats.arenas.18446744073709551616.pactive";
  EXPECT(mallctl(far, &bytes, &size, NULL, 0) == ENOENT);

  unsigned cache = Number("tcache.create");
  EXPECT(mallctl("tcache.destroy", NULL, NULL, &cache, sizeof cache) == 0);
  EXPECT(mallctl("tcache.destroy", NULL, NULL, NULL, 0) == EINVAL);
  EXPECT(mallctl("thread.tcache.flush", NULL, NULL, NULL, 0) == 0);

  // However often, as Redis at each SCRIPT FLUSH: a number that the flags of mallocx can name.
  for (int i = 0; i < 5000; ++i) EXPECT(Number("tcache.create") < 4095);

  size_t mib[4];
  size_t length = 4;
  EXPECT(nametomib("arenas.bin.0.size", mib, &length) == 0 && length == 4);
  mib[2] = 8;
  EXPECT(bymib(mib, length, &bytes, &size, NULL, 0) == 0 && bytes == Bytes("arenas.bin.8.size"));
}

#define FIND(function, name) *(void**)&(function) = dlsym(RTLD_DEFAULT, name)

int main(int argc, char** argv) {
  (void)argv;
  FIND(mallocx, "mallocx");
  FIND(rallocx, "rallocx");
  FIND(xallocx, "xallocx");
  FIND(sallocx, "sallocx");
  FIND(nallocx, "nallocx");
  FIND(dallocx, "dallocx");
  FIND(sdallocx, "sdallocx");
  FIND(mallctl, "mallctl");
  FIND(nametomib, "mallctlnametomib");
  FIND(bymib, "mallctlbymib");
  EXPECT(mallocx && rallocx && xallocx && sallocx && nallocx && dallocx && sdallocx);
  Sizes();
  GrowingZeroed();
  Resizing();
  if (argc == 1) Questions();  // else what a heap without statistics has
  puts("ok");
  return 0;
}
