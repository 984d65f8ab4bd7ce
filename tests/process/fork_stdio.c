// fork against libc's own locks: one thread flushes all files, which takes the lock on the list of
// files and waits for each file's; others hold a file's lock while getline grows its buffer.
// glibc's fork takes the list's lock after the fork handlers: an allocator that holds its locks by
// then has closed the circle.
#include "../edge/case.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>

enum { kLine = 4 << 20 };

static char path[] = "/tmp/strata-lines-XXXXXX";

static void* FlushForEver(void* unused) {
  for (;;) {
    fflush(NULL);
    usleep(50);  // the lock is not fair: fork must get a turn
  }
  return unused;
}

static void* ReadForEver(void* unused) {
  FILE* file = fopen(path, "r");
  CHECK(file != NULL);
  for (;;) {
    char* line = NULL;
    size_t size = 0;
    rewind(file);
    CHECK(getline(&line, &size, file) == kLine);
    free(line);
  }
  return unused;
}

CASE(others_flush_and_read) {
  const int fd = mkstemp(path);
  CHECK(fd >= 0);
  char* line = (char*)malloc(kLine);
  memset(line, 'a', kLine);
  line[kLine - 1] = '\n';
  CHECK(write(fd, line, kLine) == kLine);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, FlushForEver, NULL) == 0);
  for (int i = 0; i < 2; ++i) CHECK(pthread_create(&thread, NULL, ReadForEver, NULL) == 0);
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      void* block = malloc(100000);
      fflush(NULL);  // the list's lock works in the child
      _exit(block == NULL);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_AT(status == 0, i);
  }
  unlink(path);
  _exit(0);
}
