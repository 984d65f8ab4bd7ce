// malloc in the child of a vfork, which has its parent's memory and thread-local storage.
#include "../edge/case.h"

#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { kHeld = 64, kThreads = 3 };

static atomic_int stop;

// Takes blocks, marks each as its own, finds each unchanged and gives it back.
static void Work(uint64_t seed, int rounds) {
  uint64_t* held[kHeld];
  for (int round = 0; round < rounds; ++round) {
    for (uint64_t i = 0; i < kHeld; ++i) {
      held[i] = (uint64_t*)malloc(64);
      if (held[i] == NULL) _exit(2);
      for (int k = 0; k < 8; ++k) held[i][k] = seed + i;
    }
    for (uint64_t i = 0; i < kHeld; ++i) {
      for (int k = 0; k < 8; ++k) {
        if (held[i][k] != seed + i) {
          Say("a block was handed out twice\n");
          _exit(3);
        }
      }
      free(held[i]);
    }
  }
}

static void* Busy(void* number) {
  while (!atomic_load(&stop)) Work((uint64_t)(uintptr_t)number << 32, 10);
  return NULL;
}

static void ExpectSuccess(pid_t child) {
  int status = 0;
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  CHECK_AT(status == 0, status);
}

CASE(children_beside_threads) {
  pthread_t threads[kThreads];
  for (uintptr_t i = 0; i < kThreads; ++i)
    CHECK(pthread_create(&threads[i], NULL, Busy, (void*)(i + 1)) == 0);
  for (int i = 0; i < 40; ++i) {
    const pid_t child = vfork();
    if (child == 0) {
      Work((uint64_t)98 << 32, 100);
      const pid_t grandchild = vfork();
      if (grandchild == 0) {
        Work((uint64_t)99 << 32, 50);
        _exit(0);
      }
      Work((uint64_t)98 << 32, 100);
      int status;
      _exit(waitpid(grandchild, &status, 0) == grandchild && status == 0 ? 0 : 4);
    }
    ExpectSuccess(child);
    Work((uint64_t)97 << 32, 10);
  }
  atomic_store(&stop, 1);
  for (int i = 0; i < kThreads; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
}

static void* BusyWithLargeBlocks(void* number) {
  enum { kSize = 40 << 10, kBlocks = 12 };
  uint64_t* held[kBlocks];
  const uint64_t mark = (uint64_t)(uintptr_t)number << 32;
  while (!atomic_load(&stop)) {
    for (uint64_t i = 0; i < kBlocks; ++i) {
      held[i] = (uint64_t*)malloc(kSize);
      if (held[i] == NULL) _exit(2);
      held[i][0] = held[i][kSize / 8 - 1] = mark + i;
    }
    for (uint64_t i = 0; i < kBlocks; ++i) {
      if (held[i][0] != mark + i || held[i][kSize / 8 - 1] != mark + i) {
        Say("a large block was handed out twice\n");
        _exit(3);
      }
      free(held[i]);
    }
  }
  return NULL;
}

// A heap that grows sends large objects down from a CPU's cache: never from the child, to which the
// kernel keeps no restartable sequences.
CASE(growth_in_children_beside_large_blocks) {
  enum { kChildren = 60, kGrowth = 300 };
  static void* volatile grown[kChildren][kGrowth];
  pthread_t threads[kThreads];
  for (uintptr_t i = 0; i < kThreads; ++i)
    CHECK(pthread_create(&threads[i], NULL, BusyWithLargeBlocks, (void*)(i + 1)) == 0);
  for (int c = 0; c < kChildren; ++c) {
    const pid_t child = vfork();
    if (child == 0) {
      for (int i = 0; i < kGrowth; ++i) {
        if ((grown[c][i] = malloc(3000)) == NULL) _exit(2);
      }
      _exit(0);
    }
    ExpectSuccess(child);
  }
  atomic_store(&stop, 1);
  for (int i = 0; i < kThreads; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  for (int c = 0; c < kChildren; ++c) {
    for (int i = 0; i < kGrowth; ++i) free(grown[c][i]);
  }
}

// What the child allocates, the parent finds and frees, and the other way around.
CASE(blocks_of_both_sides) {
  static unsigned char* volatile blocks[100];
  static unsigned char* volatile of_parent[100];
  for (size_t i = 0; i < 100; ++i) {
    of_parent[i] = (unsigned char*)malloc(i * i * 20);
    Paint(of_parent[i], i * i * 20, i);
  }
  const pid_t child = vfork();
  if (child == 0) {
    for (size_t i = 0; i < 100; ++i) {
      if (!IsPainted(of_parent[i], i * i * 20, i)) _exit(2);
      free(of_parent[i]);
      const size_t size = i * i * 30 + 1;
      unsigned char* block = (unsigned char*)(i % 2 == 0 ? malloc(size) : calloc(size, 1));
      if (i % 3 == 0) block = (unsigned char*)realloc(block, size + 5000);
      if (i % 7 == 0) {
        free(block);
        block = (unsigned char*)aligned_alloc(4096 << i % 3, size);
      }
      if (block == NULL) _exit(3);
      Paint(block, size, i);
      blocks[i] = block;
    }
    _exit(0);
  }
  CHECK(blocks[99] != NULL);  // it ran before vfork returned here
  ExpectSuccess(child);
  for (size_t i = 0; i < 100; ++i) {
    CHECK_AT(IsPainted(blocks[i], i * i * 30 + 1, i), i);
    free(blocks[i]);
  }
  Work(1, 50);
}

CASE(the_child_runs_a_program) {
  char* const arguments[] = {(char*)"true", NULL};
  for (int i = 0; i < 20; ++i) {
    const pid_t child = vfork();
    if (child == 0) {
      char* path = (char*)malloc(100);
      strcpy(path, "/bin/true");
      execv(path, arguments);
      _exit(127);
    }
    ExpectSuccess(child);
  }
}

// The stack and the registers of the caller come through, and errno tells why it failed.
__attribute__((noinline)) static pid_t Deep(int depth, volatile int* sum) {
  volatile char room[64];
  room[0] = (char)depth;
  const pid_t child = depth == 0 ? vfork() : Deep(depth - 1, sum);
  *sum += room[0];
  return child;
}

CASE(fails_as_libcs) {
  volatile int sum = 0;
  errno = EXDEV;
  const pid_t child = vfork();
  if (child == 0) _exit(0);
  CHECK(errno == EXDEV);
  ExpectSuccess(child);
  if (getuid() == 0) CHECK(setuid(65534) == 0);
  const struct rlimit none = {0, 0};
  CHECK(setrlimit(RLIMIT_NPROC, &none) == 0);
  CHECK(Deep(10, &sum) == -1 && errno == EAGAIN && sum == 55);
  Work(1, 50);
}
