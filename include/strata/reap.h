/* Reaps: regions whose objects can also be freed one by one (Berger, Zorn, McKinley, OOPSLA 2002).
 * Allocation bumps a pointer until something is freed; then freed memory is used again, so a long
 * request that allocates and frees stays bounded; clearing or destroying gives all of it back at
 * once. Sizes are in bytes; blocks are aligned to 16.
 *
 * Threads: one reap may be used by one thread at a time; a shared reap by any number. Different
 * reaps never disturb each other.
 *
 * Reaps nest: clearing or destroying a reap destroys those below it, and empties those that are
 * kept.
 *
 * Misuse (a block of another reap or of malloc, a block freed twice, a reap that is gone) writes
 * one line to stderr and ends the program, or with STRATA_ON_ERROR=ignore does nothing; a function
 * that returns a pointer then returns null with EINVAL. */
#ifndef STRATA_REAP_H_
#define STRATA_REAP_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast" /* what is in line is C */
#endif

typedef struct strata_reap strata_reap;

/* Null with ENOMEM; or with EINVAL when the parent is no reap. A null parent: none. */
strata_reap* strata_reap_create(strata_reap* parent);
/* The same for a reap that several threads use. */
strata_reap* strata_reap_create_shared(strata_reap* parent);

/* Null with ENOMEM when memory is short or the cap is reached. */
void* strata_reap_malloc(strata_reap* reap, size_t size);
void* strata_reap_calloc(strata_reap* reap, size_t count, size_t size);
/* alignment: a power of two up to 1 GiB, else EINVAL. */
void* strata_reap_memalign(strata_reap* reap, size_t alignment, size_t size);
/* As realloc: the old block stays when null is returned; a null p allocates; size 0 frees. */
void* strata_reap_realloc(strata_reap* reap, void* p, size_t size);
/* A null p does nothing. */
void strata_reap_free(strata_reap* reap, void* p);

/* A hint: the next `bytes`, up to 128 KiB, will lie in one chunk, which the next clear keeps. */
void strata_reap_reserve(strata_reap* reap, size_t bytes);

/* All blocks and all reaps below are gone; the reap itself can be used on. */
void strata_reap_clear(strata_reap* reap);
/* The reap is gone, too. A null reap does nothing. */
void strata_reap_destroy(strata_reap* reap);

/* The handle has an owner who will destroy it: where a reap above is cleared or destroyed, this one
 * is emptied and lives on; if its parent is gone, below the next one above that lives, or alone. */
void strata_reap_keep(strata_reap* reap);

/* The reap that p lies in, also in the middle of a block (of one above 256 KiB: at its start and in
 * its first 8 KiB); null for other memory. Beside a sanitizer or Valgrind nobody knows
 * whose memory p is: always null. */
strata_reap* strata_reap_find(const void* p);

/* The bytes that may be used at p, at least what was asked for, when p is a block of this reap; 0
 * for all else, which is no misuse. The start of a block that was freed or cleared may pass for
 * one, as may a block of another reap beside a sanitizer or Valgrind. */
size_t strata_reap_size(strata_reap* reap, const void* p);

/* The two calls with their most frequent cases in line: as fast as a pure region. The window is
 * what the reap hands out without being asked; it is empty for a shared reap and when the reap is
 * gone. */
struct strata_reap_window {
  char* at;
  char* limit;
};
/* What these calls take for granted of a reap and its blocks has a number. A program in which they
 * are names the number's object, so with a library whose reaps are laid out in another way it
 * neither links nor starts. */
extern const char strata_reap_layout_1 __attribute__((visibility("default")));
#define STRATA_REAP_LAYOUT_ \
  static const char* const strata_layout __attribute__((used)) = &strata_reap_layout_1

/* From the window alone: null where strata_reap_malloc has to be asked. */
static inline void* strata_reap_malloc_window(strata_reap* reap, size_t size) {
  STRATA_REAP_LAYOUT_;
  struct strata_reap_window* window = (struct strata_reap_window*)(void*)reap;
  size_t bytes = (size + 8 + 15) & ~(size_t)15; /* with the tag in front, in units of 16 */
  char* p = window->at;
  uintptr_t end;
  if (bytes < 32) bytes = 32;
  end = (uintptr_t)p + bytes; /* no overflow: addresses are below 2^56 */
  if (size > PTRDIFF_MAX || end > (uintptr_t)window->limit) return NULL;
  *(size_t*)(void*)(p - 8) = bytes | 3; /* in use, and so is the one before */
  window->at = (char*)end;
  return p;
}
static inline void* strata_reap_malloc_inline(strata_reap* reap, size_t size) {
  void* p = strata_reap_malloc_window(reap, size);
  return p != NULL ? p : strata_reap_malloc(reap, size);
}
/* The newest block of the window steps back; a tag without its lowest bit is a block freed. A step
 * back gives no chunk back, also where no block is left: that is for a later strata_reap_free or
 * strata_reap_clear. */
static inline void strata_reap_free_inline(strata_reap* reap, void* p) {
  STRATA_REAP_LAYOUT_;
  struct strata_reap_window* window = (struct strata_reap_window*)(void*)reap;
  size_t* tag = (size_t*)p - 1;
  if (p == NULL) return;
  if ((char*)p + (*tag ^ 3) != window->at) {
    strata_reap_free(reap, p);
    return;
  }
  *tag ^= 1;
  window->at = (char*)p;
}

/* 0; or EINVAL when the new parent is no reap, or is the reap itself or one below it. */
int strata_reap_set_parent(strata_reap* reap, strata_reap* parent);

/* In blocks, with 8 bytes for each, and with what lies in front of an aligned one that has memory
 * of its own; and all that the reap holds of the process's heap. */
size_t strata_reap_bytes(strata_reap* reap);
size_t strata_reap_held(strata_reap* reap);

/* Called when `wanted` more bytes would make the reap hold more than its cap, outside of all scopes
 * and without a lock. Returns the new cap; one that is still too low, or 0, which leaves the cap as
 * it is, makes the request fail. The function may free blocks of the reap instead: then there is
 * room below the same cap. It may use the reap, fork and throw; what it allocates in the reap
 * should fit below the cap, or it is called again from within itself. */
typedef size_t (*strata_reap_cap_function)(void* context, size_t held, size_t wanted, size_t cap);
/* 0 bytes: no cap. A null function: the cap stands. */
void strata_reap_set_cap(strata_reap* reap, size_t bytes, strata_reap_cap_function reached,
                         void* context);

#ifdef __cplusplus
#pragma GCC diagnostic pop
}
#endif

#endif /* STRATA_REAP_H_ */
