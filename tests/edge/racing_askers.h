// Two threads that ask at one cap at the same time. The function grants each what it wants, but the
// smaller request's answer comes after the larger one was met, to a question that is stale by then.
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "case.h"

enum { kRacedLarge = 1000000, kRacedSmall = 30000 };

static int racing_askers;  // these two with atomic built-ins
static bool large_is_met;
static void* (*raced_allocate)(size_t size);

static size_t GrantBoth(void* context, size_t now, size_t wanted, size_t cap) {
  (void)context;
  CHECK_AT(now <= cap && now + wanted > cap, now);
  __atomic_fetch_add(&racing_askers, 1, __ATOMIC_ACQ_REL);
  while (__atomic_load_n(&racing_askers, __ATOMIC_ACQUIRE) < 2) usleep(100);
  while (wanted < kRacedLarge && !__atomic_load_n(&large_is_met, __ATOMIC_ACQUIRE)) usleep(100);
  return now + wanted;
}

static void* AskForLarge(void* unused) {
  void* p = raced_allocate(kRacedLarge);
  __atomic_store_n(&large_is_met, true, __ATOMIC_RELEASE);
  return p != NULL ? p : unused;
}

// GrantBoth is asked at the cap of what `allocate` allocates in, which is reached.
static void ExpectBothGranted(void* (*allocate)(size_t size)) {
  alarm(60);
  raced_allocate = allocate;
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, AskForLarge, NULL) == 0);
  void* small = allocate(kRacedSmall);
  void* large;
  CHECK(pthread_join(thread, &large) == 0);
  CHECK(large != NULL);
  CHECK(small != NULL);
}
