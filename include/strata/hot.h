/* Objects that move: hot ones together, cold ones apart (Banakar et al., "Tidying up the address
 * space", DIMES 2025). A domain keeps objects in three heaps, new, hot and cold. The program
 * reaches an object through the one guide that owns it, a tagged pointer; the domain sees which
 * guides are used, moves the objects and writes the new address into the guide. C++ programs use
 * strata/hot_ptr.h, which stands on this; docs/hotness.md explains both.
 *
 * Addresses: between strata_hot_enter and strata_hot_leave, an operation, what strata_hot_get
 * returned stays where it is. Outside, an address is worth nothing.
 *
 * Threads: everything here may be called by any thread, and a guide may be read by many at once
 * while its object moves. Who changes a guide (own, disown, move) or frees its object sees to it
 * that nobody else uses that guide meanwhile, as with any pointer.
 *
 * A guide that owns something must stay where it is and must not be copied as bytes: the domain
 * knows its address. Empty it, or move it with strata_hot_move, before its memory goes. */
#ifndef STRATA_HOT_H_
#define STRATA_HOT_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast" /* what is in line is C */
#endif

typedef struct strata_hot_domain strata_hot_domain;

/* A guide, from the low bits up: address 48, idle windows 6, heap 2, used 1, lock 1, held 1.
 *
 * 48 bits of address, because x86-64 has 47 for programs unless they ask for more (LA57) or use the
 * upper ones themselves (LAM); a process where either is on gets no domain. Six bits count windows
 * without a use; the policy never waits for more than 32. Two name the heap, the fourth value
 * stands for what no domain moves. `lock` is set while an object is copied, and who uses it takes
 * the lock away, which ends the move; `held` says that the move cannot be ended and is waited for.
 *
 * Unlike the published one it holds no count of active threads. A count in the word must be taken
 * back in the word, and at the end of an operation that may be gone: freed, or its object handed to
 * another guide. Here operations list what they use in memory of the domain's own. */
typedef struct {
  uint64_t word;
} strata_hot_guide;

#define STRATA_HOT_ADDRESS_BITS 48
#define STRATA_HOT_USED (UINT64_C(1) << 56)
#define STRATA_HOT_LOCK (UINT64_C(1) << 57)

/* How objects of a type move and end. One object of static storage for a type; null where its bytes
 * may be copied and nothing is to be done at its end. */
typedef struct {
  const char* name;
  /* Makes `to` what `from` was; `from` is then no object. Called by the domain's thread with nobody
   * else at the object. Null: memcpy. */
  void (*move)(void* to, void* from, size_t bytes);
  /* For objects that were retired. Null: nothing to do. */
  void (*destroy)(void* object, size_t bytes);
} strata_hot_type;

typedef enum {
  STRATA_HOT_RECLAIM_PAGEOUT =
      0,                       /* cold pages are paged out while few are missed, else marked cold */
  STRATA_HOT_RECLAIM_COLD = 1, /* cold pages are marked, and go first when the kernel needs some */
  STRATA_HOT_RECLAIM_PRESSURE = 2, /* paged out bit by bit while memory pressure (PSI) stays low */
  STRATA_HOT_RECLAIM_NONE = 3,     /* the kernel finds out by itself */
  STRATA_HOT_RECLAIM_CGROUP = 4,   /* marked cold, and then reclaimed from the process's cgroup */
  STRATA_HOT_RECLAIM_DAMON = 5     /* left to DAMON, which is set up to page out what is not used */
} strata_hot_reclaim;

typedef struct {
  uint32_t size;           /* sizeof(strata_hot_options) */
  uint32_t without_thread; /* 1: nothing happens but in strata_hot_collect */
  /* 1: what an operation used moves at its end, and who uses the old place is named; an object
   * takes whole pages and an operation microseconds. 2: so with the first 1,024 objects and 20,000
   * operations, the rest as with 0. */
  uint32_t check;
  uint32_t period_ms; /* between two looks at the guides, at least; 0: 1,000 */
  strata_hot_reclaim reclaim;
  double target;             /* share of the used bytes that may be cold ones; 0: 0.01 */
  double cpu_share;          /* of a core, for the domain's thread at rest; 0: 0.01 */
  uint64_t bytes_per_second; /* of moves; 0: 256 MiB */
} strata_hot_options;

/* Null options: all defaults. Null with ENOMEM; with ENOTSUP and one line on stderr where addresses
 * have more than 48 bits or the upper ones are in use (LA57, LAM). */
strata_hot_domain* strata_hot_domain_create(const strata_hot_options* options);
/* Everything in it must be gone: if not, one line says how many objects are left, and the domain
 * stays. Waits for what the domain's thread is destroying. A domain that has ended already is one
 * line, too: none of the next 255 in its place has the same handle. A null domain does nothing. */
void strata_hot_domain_destroy(strata_hot_domain* domain);
/* One for whoever needs no other, made with its first use; null with ENOMEM or ENOTSUP. */
strata_hot_domain* strata_hot_domain_default(void);

/* The record of an operation, on the stack of the thread that does it. */
typedef struct {
  uint64_t expected; /* of a guide's used and lock bits, where nothing has to be done */
  void* slot;
  strata_hot_domain* domain;
} strata_hot_scope;

void strata_hot_enter(strata_hot_domain* domain, strata_hot_scope* scope);
void strata_hot_leave(strata_hot_scope* scope);

/* An object of nobody's; it does not move. Alignment: a power of two up to 4 KiB. Null with ENOMEM.
 */
void* strata_hot_allocate(strata_hot_domain* domain, size_t size, size_t alignment,
                          const strata_hot_type* type);
/* The same in the heap where `other` lies, an object that this one will replace: what is written
 * often stays among the hot ones. A null `other` is in no heap. */
void* strata_hot_allocate_beside(strata_hot_domain* domain, size_t size, size_t alignment,
                                 const strata_hot_type* type, const void* other);
/* The guide owns the object from now on; the one that did so before must not be used again. What
 * the guide itself owned before is nobody's. A null object empties the guide. Memory that is no
 * domain's can be owned, too, and never moves. */
void strata_hot_own(strata_hot_guide* guide, void* object);
/* Empties the guide. The object is nobody's, and stays at the address returned. */
void* strata_hot_disown(strata_hot_guide* guide);
/* `to` must be empty. What `from` owns is to's. */
void strata_hot_move(strata_hot_guide* to, strata_hot_guide* from);
/* For a type's `move`, where objects hold guides among plain bytes: copies the bytes, and what the
 * guides in them own is to's. A guide is a word at a multiple of 8 whose object names it as owner.
 */
void strata_hot_move_guides(void* to, void* from, size_t bytes);

/* At once: nobody may use the object any more. Null does nothing. A guide that owns it is not
 * emptied and must not be used again. */
void strata_hot_free(void* object);
/* The object, which must be nobody's, is destroyed and freed when all operations that run now have
 * ended. */
void strata_hot_retire(strata_hot_domain* domain, void* object);

/* For guides that threads change while others read: what `guide` holds becomes `object` if it was
 * `expected` (null: empty), and what was there is retired. `object` must be nobody's; null empties.
 * 0: something else was there, and nothing happened. In an operation in which `expected` was got.
 */
int strata_hot_exchange(strata_hot_scope* scope, strata_hot_guide* guide, void* expected,
                        void* object);

void* strata_hot_get_slow(strata_hot_scope* scope, strata_hot_guide* guide);

/* The object, or null; it stays there until the operation ends. */
static inline void* strata_hot_get(strata_hot_scope* scope, strata_hot_guide* guide) {
  const uint64_t word = __atomic_load_n(&guide->word, __ATOMIC_ACQUIRE);
  if (__builtin_expect((word & (STRATA_HOT_USED | STRATA_HOT_LOCK)) == scope->expected, 1))
    return (void*)(uintptr_t)(word & ((UINT64_C(1) << STRATA_HOT_ADDRESS_BITS) - 1));
  return strata_hot_get_slow(scope, guide);
}

/* Where the object lies now, without using it: to measure, not to follow. */
static inline void* strata_hot_peek(const strata_hot_guide* guide) {
  const uint64_t word = __atomic_load_n(&guide->word, __ATOMIC_ACQUIRE);
  return (void*)(uintptr_t)(word & ((UINT64_C(1) << STRATA_HOT_ADDRESS_BITS) - 1));
}

/* Bytes that may be used; 0 where no object of a domain starts. */
size_t strata_hot_size(const void* object);

/* One round now: looks at all guides, moves what should move, without the bounds per second. Called
 * from within a round, by what moves or destroys an object, it does nothing. */
void strata_hot_collect(strata_hot_domain* domain);
/* The share of the used bytes that may be cold ones. */
void strata_hot_set_target(strata_hot_domain* domain, double share);

typedef struct {
  uint64_t objects, bytes,
      resident_bytes; /* resident: of the blocks, an upper bound for cold ones */
} strata_hot_heap_stats;

/* Sums since the domain was made, but for those that say what is now. */
typedef struct {
  uint32_t size;                 /* sizeof(strata_hot_stats_t), set by the caller */
  uint32_t cold_after;           /* Ct: windows without a use, now */
  strata_hot_heap_stats heap[3]; /* new, hot, cold; now */
  uint64_t rounds, epochs, moves, moved_bytes, promotions, demotions;
  /* Moves that did not happen, and why. Of the last two one for each kind of object and round. */
  uint64_t aborted_in_use, aborted_used, aborted_no_memory, aborted_near_limit;
  uint64_t epochs_given_up; /* an operation did not end in time */
  uint64_t paged_out_bytes; /* asked for */
  uint64_t collector_ns;    /* CPU time */
  uint64_t retired_waiting; /* now */
  double promotion_rate;    /* of the last window */
  double target;
  double utilization; /* estimate: used bytes to the bytes of the pages they lie on, last window */
} strata_hot_stats_t;

/* False if `size` is not known to this library. */
int strata_hot_stats(strata_hot_domain* domain, strata_hot_stats_t* stats);

#ifdef __cplusplus
#pragma GCC diagnostic pop
}
#endif

#endif /* STRATA_HOT_H_ */
