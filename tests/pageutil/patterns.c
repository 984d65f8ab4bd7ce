// Touches its memory in patterns whose page utilization is known by construction, for
// test_pageutil.py. Usage: patterns PATTERN PAGES [THEN]
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kPage = 4096, kLine = 64, kThreads = 4, kSize = 512, kBlocks = 4000 };

static volatile char* g_memory;
static size_t g_pages;

static void Line(volatile char* page) {
  for (int i = 0; i < kLine; i += 8) *(volatile uint64_t*)(page + i) = 1;
}

static void Touch(const char* pattern) {
  uint64_t random = 2024, touched = 0;
  for (size_t n = 0; n < g_pages; ++n) {
    volatile char* page = g_memory + n * kPage;
    if (strcmp(pattern, "one") == 0) {
      Line(page + n % (kPage / kLine) * kLine);
    } else if (strcmp(pattern, "second") == 0) {
      for (int at = 0; at < kPage; at += 2 * kLine) Line(page + at);
    } else if (strcmp(pattern, "sweep") == 0) {
      for (int at = 0; at < kPage; at += kLine) Line(page + at);
    } else if (strcmp(pattern, "across") == 0) {  // 8 bytes, 4 of them of the next line
      *(volatile uint64_t*)(page + kLine - 4) = 1;
    } else {
      for (int i = 0; i < 200; ++i) {  // counted as they are set, so each once
        random = random * 6364136223846793005u + 1442695040888963407u;
        volatile char* byte = page + (random >> 33) % kPage;
        touched += *byte == 0;
        *byte = 1;
      }
    }
  }
  if (strcmp(pattern, "random") == 0) printf("%lu\n", (unsigned long)touched);
}

// All threads share every word of the plugin's bits.
static void* Interleave(void* number) {
  for (size_t at = (size_t)number; at < g_pages * kPage; at += kThreads) g_memory[at] = 1;
  return NULL;
}

__attribute__((noinline)) static void* MakeUsed(void) {
  void* p = malloc(kSize);
  memset(p, 1, kSize);
  __asm__ volatile("" : : "r"(p) : "memory");
  return p;
}
__attribute__((noinline)) static void* MakeUnused(void) {
  void* p = malloc(kSize);
  __asm__ volatile("" : : "r"(p) : "memory");
  return p;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const char* pattern = argv[1];
  const char* then = argc > 3 ? argv[3] : "";
  g_pages = strtoul(argv[2], NULL, 10);
  g_memory =
      mmap(NULL, g_pages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (strcmp(pattern, "threads") == 0) {
    pthread_t threads[kThreads];
    for (size_t i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, Interleave, (void*)i);
    for (size_t i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  } else if (strcmp(pattern, "blocks") == 0) {
    for (int i = 0; i < kBlocks; ++i) {
      static void* keep[2 * kBlocks];
      keep[2 * i] = MakeUsed();
      keep[2 * i + 1] = MakeUnused();
    }
  } else {
    Touch(pattern);
  }
  fflush(stdout);
  if (strcmp(then, "fork") == 0 && fork() == 0) {
    memset((void*)g_memory, 1, g_pages * kPage);
    _exit(0);
  }
  if (strcmp(then, "fork") == 0) wait(NULL);
  if (strcmp(then, "kill") == 0) kill(getpid(), SIGKILL);
  if (strcmp(then, "sleep") == 0) {
    puts("ready");
    fflush(stdout);
    sleep(120);
  }
  return strcmp(then, "fail") == 0 ? 7 : 0;
}
