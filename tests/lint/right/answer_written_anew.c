// Right: an answer is given back, and the next one is put there unless the number says that it is
// not.
#include <stdlib.h>
#include <unistd.h>

static int ask(int fd, int rounds, char** answer) {
  int i = 0;
  for (;;) {
    char* b = malloc(64);
    if (b == NULL) return -1;
    long n = read(fd, b, 64);
    ++i;
    if (n <= 0) {
      free(b);
      if (n < 0) return -i;
      continue;
    }
    if (i < rounds) {
      free(b);
      continue;
    }
    *answer = b;
    return 0;
  }
}

int main(int argc, char** argv) {
  (void)argv;
  char* answer = NULL;
  if (ask(0, argc, &answer) < 0) return 1;
  if (argc > 1) {
    free(answer);
    if (ask(0, argc, &answer) < 0) return 1;
  }
  write(1, answer, 1);
  free(answer);
  return 0;
}
