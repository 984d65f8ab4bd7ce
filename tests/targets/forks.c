// Forks again and again; both sides go on allocating. Says nothing unless something is wrong.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void Work(unsigned char mark) {
  unsigned char* blocks[200];
  for (size_t i = 0; i < 200; ++i) {
    blocks[i] = malloc(i * 7 + 1);
    if (blocks[i] == NULL) abort();
    memset(blocks[i], mark, i * 7 + 1);
  }
  for (size_t i = 0; i < 200; ++i) {
    if (blocks[i][0] != mark || blocks[i][i * 7] != mark) abort();
    free(blocks[i]);
  }
}

int main(void) {
  for (int i = 0; i < 20; ++i) {
    Work(1);
    const pid_t child = fork();
    if (child == 0) {
      Work(2);
      _exit(0);
    }
    Work(3);
    int status;
    if (waitpid(child, &status, 0) != child || status != 0) {
      fprintf(stderr, "child %d ended with %x\n", i, (unsigned)status);
      return 1;
    }
  }
  return 0;
}
