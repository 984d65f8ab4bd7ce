// vfork, posix_spawn, system and popen from threads while others allocate.
#include "../edge/case.h"

#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>

extern char** environ;
static atomic_int stop;

static void* Busy(void* number) {
  uint64_t random = (uint64_t)(uintptr_t)number;
  while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
    size_t size = 1 + NextRandom(&random) % 100000;
    char* block = (char*)malloc(size);
    CHECK_AT(block != NULL, size);
    block[0] = block[size - 1] = 1;
    free(block);
  }
  return NULL;
}

static void Reap(pid_t child) {
  int status = 0;
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  CHECK_AT(WIFEXITED(status) && WEXITSTATUS(status) == 0, status);
}

static void* Vfork(void* unused) {
  char* const arguments[] = {(char*)"true", NULL};
  for (int i = 0; i < 60; ++i) {
    pid_t child = vfork();
    if (child == 0) {
      execve("/bin/true", arguments, environ);
      _exit(127);
    }
    Reap(child);
  }
  return unused;
}

static void* Spawn(void* unused) {
  char* const arguments[] = {(char*)"sh", (char*)"-c", (char*)"exit 0", NULL};
  for (int i = 0; i < 60; ++i) {
    pid_t child = 0;
    CHECK(posix_spawnp(&child, "sh", NULL, NULL, arguments, environ) == 0);
    Reap(child);
  }
  return unused;
}

static void* Shell(void* unused) {
  for (int i = 0; i < 30; ++i) {
    CHECK(system("exit 0") == 0);
    FILE* pipe = popen("echo hello", "r");
    char text[16] = "";
    CHECK(pipe != NULL && fgets(text, sizeof text, pipe) != NULL);
    CHECK(strcmp(text, "hello\n") == 0 && pclose(pipe) == 0);
  }
  return unused;
}

CASE(spawn_from_threads) {
  pthread_t busy[2];
  pthread_t spawners[3];
  void* (*work[])(void*) = {Vfork, Spawn, Shell};
  for (uintptr_t i = 0; i < 2; ++i) {
    CHECK(pthread_create(&busy[i], NULL, Busy, (void*)(i + 1)) == 0);
  }
  for (int i = 0; i < 3; ++i) CHECK(pthread_create(&spawners[i], NULL, work[i], NULL) == 0);
  for (int i = 0; i < 3; ++i) CHECK(pthread_join(spawners[i], NULL) == 0);
  atomic_store(&stop, 1);
  for (int i = 0; i < 2; ++i) CHECK(pthread_join(busy[i], NULL) == 0);
}
