// The frame of the blackbox helper programs: CASE(name) { CHECK(...); } declares one case, and
// `program name [arguments]` runs it in a process of its own. A case that fails says so on stderr
// and ends with status 1; one that passes writes nothing at all, so that any other output is the
// allocator's. The report avoids stdio, which allocates.
#pragma once

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct Case {
  const char* name;
  void (*run)(void);
  struct Case* next;
};

static struct Case* all_cases;
static int case_argc;
static char** case_argv;

#define CASE(NAME)                                                 \
  static void Run_##NAME(void);                                    \
  __attribute__((constructor)) static void Register_##NAME(void) { \
    static struct Case entry;                                      \
    entry.name = #NAME;                                            \
    entry.run = Run_##NAME;                                        \
    entry.next = all_cases;                                        \
    all_cases = &entry;                                            \
  }                                                                \
  static void Run_##NAME(void)

static inline void Say(const char* text) {
  ssize_t written = write(2, text, strlen(text));
  (void)written;
}

static inline void SayNumber(const char* label, long long number) {
  char digits[24];
  char* at = digits + sizeof digits - 1;
  unsigned long long rest =
      number < 0 ? 0ULL - (unsigned long long)number : (unsigned long long)number;
  *at = 0;
  do {
    *--at = (char)('0' + rest % 10);
    rest /= 10;
  } while (rest != 0);
  if (number < 0) *--at = '-';
  Say(label);
  Say(at);
}

__attribute__((noreturn)) static inline void Fail(const char* what, const char* file, int line) {
  int error = errno;
  Say("FAIL ");
  Say(file);
  SayNumber(":", line);
  Say(": ");
  Say(what);
  SayNumber(" (errno ", error);
  Say(")\n");
  _exit(1);
}

#define CHECK(CONDITION)                                    \
  do {                                                      \
    if (!(CONDITION)) Fail(#CONDITION, __FILE__, __LINE__); \
  } while (0)

// As CHECK(LEFT == RIGHT), and names the size (or other number) at which it went wrong.
#define CHECK_AT(CONDITION, NUMBER)          \
  do {                                       \
    if (!(CONDITION)) {                      \
      SayNumber("at ", (long long)(NUMBER)); \
      Say(": ");                             \
      Fail(#CONDITION, __FILE__, __LINE__);  \
    }                                        \
  } while (0)

// Hide a value from the optimiser, which otherwise warns about (or removes) absurd requests.
static inline size_t Hide(size_t value) {
  __asm__ volatile("" : "+r"(value));
  return value;
}

static inline void* HidePointer(const void* pointer) {
  __asm__ volatile("" : "+r"(pointer));
  return (void*)pointer;
}

// The most memory that was ever resident, in KiB. Not ru_maxrss: that begins with what the process
// had before it became this program, which is its parent's.
static inline long PeakResidentKiB(void) {
  char text[4096];
  const int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  CHECK(file >= 0);
  const ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  CHECK(length > 0);
  text[length] = 0;
  const char* line = strstr(text, "VmHWM:");
  CHECK(line != NULL);
  return atol(line + sizeof "VmHWM:" - 1);
}

// A byte that depends on the block and on the place in it.
static inline unsigned char PatternByte(uint64_t seed, size_t index) {
  return (unsigned char)((seed * 0x9E3779B97F4A7C15ULL >> 56) + index * 131 + (index >> 8));
}

static inline void Paint(void* block, size_t size, uint64_t seed) {
  unsigned char* bytes = (unsigned char*)block;
  for (size_t i = 0; i < size; ++i) bytes[i] = PatternByte(seed, i);
}

static inline int IsPainted(const void* block, size_t size, uint64_t seed) {
  const unsigned char* bytes = (const unsigned char*)block;
  for (size_t i = 0; i < size; ++i) {
    if (bytes[i] != PatternByte(seed, i)) return 0;
  }
  return 1;
}

// xorshift64*: enough randomness for tests, the same on every machine.
static inline uint64_t NextRandom(uint64_t* state) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return *state * 0x2545F4914F6CDD1DULL;
}

// Bytes, as the kernel counts them now.
static inline size_t Resident(void) {
  char text[128] = "";
  const int file = open("/proc/self/statm", O_RDONLY);
  CHECK(file >= 0 && read(file, text, sizeof text - 1) > 0);
  close(file);
  return strtoull(strchr(text, ' '), NULL, 10) * 4096;
}

// Returns when the other thread is done.
static inline void OnAnotherThread(void* (*run)(void*), void* arg) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, run, arg) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
}

#ifndef CASE_NO_MAIN
int main(int argc, char** argv) {
  case_argc = argc;
  case_argv = argv;
  if (argc < 2) Fail("usage: program case [arguments]", argv[0], 0);
  for (struct Case* entry = all_cases; entry != NULL; entry = entry->next) {
    if (strcmp(entry->name, argv[1]) == 0) {
      entry->run();
      return 0;
    }
  }
  Fail("no such case", argv[1], 0);
}
#endif
