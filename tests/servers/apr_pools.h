// What the cases about APR's pools share: pools, and functions that tell when they are called.
#pragma once

#include <apr_pools.h>
#include <apr_thread_mutex.h>
#include <stdio.h>

#include "case.h"

static inline apr_pool_t* New(apr_pool_t* parent) {
  apr_pool_t* pool = NULL;
  CHECK(apr_pool_create(&pool, parent) == APR_SUCCESS && pool != NULL);
  return pool;
}

// A pool whose children several threads may make: its allocator has a mutex.
static inline apr_pool_t* NewForThreads(void) {
  apr_allocator_t* allocator;
  apr_thread_mutex_t* mutex;
  apr_pool_t* pool = NULL;
  CHECK(apr_allocator_create(&allocator) == APR_SUCCESS);
  CHECK(apr_pool_create_ex(&pool, NULL, NULL, allocator) == APR_SUCCESS && pool != NULL);
  CHECK(apr_thread_mutex_create(&mutex, APR_THREAD_MUTEX_DEFAULT, pool) == APR_SUCCESS);
  apr_allocator_mutex_set(allocator, mutex);
  apr_allocator_owner_set(allocator, pool);
  return pool;
}

static inline apr_status_t Tell(void* data) {
  printf("cleanup %s\n", (const char*)data);
  return APR_SUCCESS;
}

static inline int NoteFailure(int status) {
  printf("abort function: %d\n", status);
  return 0;
}
