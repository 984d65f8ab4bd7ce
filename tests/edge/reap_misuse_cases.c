// Misuse of reaps, one case for each kind.
#include "case.h"
#include "strata/reap.h"

CASE(bad_plain_free_of_a_block_for_one_thread) {
  strata_reap* reap = strata_reap_create(NULL);
  free(strata_reap_malloc(reap, 100));
}

CASE(bad_plain_free_where_a_page_begins) {
  strata_reap* reap = strata_reap_create(NULL);
  for (int i = 0; i < 3; ++i) strata_reap_malloc(reap, 8000);
  free(strata_reap_memalign(reap, 8192, 100));
}

CASE(bad_plain_realloc_of_a_block_for_one_thread) {
  strata_reap* reap = strata_reap_create(NULL);
  CHECK(realloc(strata_reap_malloc(reap, 100), 10) == NULL && errno == EINVAL);
}

CASE(bad_free_after_clear) {
  strata_reap* reap = strata_reap_create(NULL);
  strata_reap_malloc(reap, 100);
  char* p = strata_reap_malloc(reap, 100);
  strata_reap_clear(reap);
  strata_reap_free(reap, p);
  CHECK(strata_reap_bytes(reap) == 0);
}

CASE(bad_free_of_the_newest_twice) {
  strata_reap* reap = strata_reap_create(NULL);
  char* before = strata_reap_malloc(reap, 100);
  char* p = strata_reap_malloc(reap, 100);
  strata_reap_free(reap, p);
  CHECK(strata_reap_malloc(reap, 100) == p);
  strata_reap_free(reap, p);
  // Where the window begins lies no block, though the word there may look like the tag of one
  // without bytes.
  ((size_t*)(void*)before)[13] = 3;
  strata_reap_free(reap, p);
  CHECK(((size_t*)(void*)before)[13] == 3);
}

CASE(bad_inline_free_twice) {
  strata_reap* reap = strata_reap_create(NULL);
  char* p = strata_reap_malloc_inline(reap, 100);
  strata_reap_free_inline(reap, p);
  strata_reap_free_inline(reap, p);
}

CASE(bad_inline_use_after_destroy) {
  strata_reap* reap = strata_reap_create(NULL);
  strata_reap_malloc_inline(reap, 1);
  strata_reap_destroy(reap);
  CHECK(strata_reap_malloc_inline(reap, 1) == NULL && errno == EINVAL);
}

CASE(bad_free_to_another_reap) {
  strata_reap* one = strata_reap_create(NULL);
  strata_reap* two = strata_reap_create(NULL);
  strata_reap_malloc(two, 8);
  strata_reap_free(two, strata_reap_malloc(one, 100));
}

CASE(bad_free_of_malloc) {
  strata_reap* reap = strata_reap_create(NULL);
  strata_reap_free(reap, malloc(100));
}

// No block begins there, whatever the words of the block before it look like.
CASE(bad_free_where_a_chunk_begins) {
  strata_reap* reap = NULL;
  char* chunk = NULL;
  for (int i = 0; i < 1000; ++i) {
    char* before = malloc(8192);
    memset(before, 0x11, malloc_usable_size(before));
    reap = strata_reap_create(NULL);
    chunk = (char*)strata_reap_malloc(reap, 100) - 64;
    if (before + malloc_usable_size(before) == chunk) break;  // as nearly always
  }
  strata_reap_free(reap, chunk);
}

CASE(bad_free_of_stack) {
  _Alignas(16) char local[64];
  strata_reap* reap = strata_reap_create(NULL);
  strata_reap_free(reap, local);
}

CASE(bad_free_of_a_global) {
  static _Alignas(16) char global[64];
  strata_reap_free(strata_reap_create(NULL), global + 16);
}

CASE(bad_malloc_in_no_reap) {
  CHECK(strata_reap_malloc((strata_reap*)HidePointer(NULL), 10) == NULL && errno == EINVAL);
}

// As a program's own region would: a pointer to what is free, and one to its end.
typedef struct Region {
  char* at;
  char* limit;
  _Alignas(64) char memory[1024];
} Region;
static strata_reap* AsReap(Region* region) {
  region->at = region->memory + 64;
  region->limit = region->memory + sizeof region->memory;
  return (strata_reap*)(void*)region;
}

CASE(bad_malloc_in_a_region_of_the_programs) {
  static Region region;
  CHECK(strata_reap_malloc(AsReap(&region), 40) == NULL && errno == EINVAL);
  CHECK(region.at == region.memory + 64);
  for (size_t i = 0; i < sizeof region.memory; ++i) CHECK(region.memory[i] == 0);
}

CASE(bad_free_in_a_region_of_the_programs) {
  static Region region;
  strata_reap* reap = AsReap(&region);
  size_t* tag = (size_t*)(void*)(region.memory + 24);
  *tag = 32 | 3;
  strata_reap_free(reap, region.memory + 32);
  CHECK(*tag == (32 | 3) && region.at == region.memory + 64);
}

CASE(bad_free_to_another_after_destroy) {
  strata_reap* one = strata_reap_create(NULL);
  strata_reap* two = strata_reap_create(NULL);
  char* p = strata_reap_malloc(one, 100);
  strata_reap_malloc(two, 100);
  strata_reap_destroy(one);
  strata_reap_free(two, p);
  CHECK(strata_reap_bytes(two) >= 100);
}

CASE(bad_free_twice) {
  strata_reap* reap = strata_reap_create(NULL);
  char* p = strata_reap_malloc(reap, 100);
  strata_reap_malloc(reap, 100);
  strata_reap_free(reap, p);
  strata_reap_free(reap, p);
}

// Its place is part of a larger free block by then.
CASE(bad_free_twice_after_it_joined_its_neighbours) {
  strata_reap* reap = strata_reap_create(NULL);
  strata_reap_malloc(reap, 100);
  char* p[200];
  for (int i = 0; i < 200; ++i) p[i] = strata_reap_malloc(reap, 900);
  strata_reap_malloc(reap, 100);
  for (int i = 0; i < 200; ++i) strata_reap_free(reap, p[i]);
  CHECK(strata_reap_bytes(reap) < 400);
  strata_reap_free(reap, p[199]);
}

CASE(bad_free_after_destroy) {
  strata_reap* reap = strata_reap_create(NULL);
  char* p = strata_reap_malloc(reap, 100);
  strata_reap_destroy(reap);
  strata_reap_free(reap, p);
}

CASE(bad_use_after_destroy) {
  strata_reap* reap = strata_reap_create(NULL);
  strata_reap_destroy(reap);
  CHECK(strata_reap_malloc(reap, 1) == NULL && errno == EINVAL);
}

CASE(bad_destroy_twice) {
  strata_reap* reap = strata_reap_create(NULL);
  strata_reap_destroy(reap);
  strata_reap_destroy(reap);
}

CASE(bad_parent_that_is_gone) {
  strata_reap* reap = strata_reap_create(NULL);
  strata_reap_destroy(reap);
  CHECK(strata_reap_create(reap) == NULL && errno == EINVAL);
}

CASE(bad_realloc_of_another) {
  strata_reap* one = strata_reap_create(NULL);
  strata_reap* two = strata_reap_create(NULL);
  char* p = strata_reap_malloc(one, 100);
  CHECK(strata_reap_realloc(two, p, 200) == NULL && errno == EINVAL);
}
