// The stream is lost where the second caller does not ask for it.
#include <stdio.h>
#include <unistd.h>

static int start(const char* name, FILE** stream, int captures) {
  FILE* f = NULL;
  int pair[2];
  if (pipe(pair) < 0) return -1;
  write(pair[1], name, 1);
  close(pair[1]);
  if (!captures) {
    close(pair[0]);
  } else if (!(f = fdopen(pair[0], "r"))) {
    close(pair[0]);
    return -1;
  }
  if (stream) *stream = f;
  return 0;
}

int main(int argc, char** argv) {
  FILE* f;
  if (start(argv[0], &f, argc) < 0) return 1;
  if (f) fclose(f);
  return start(argv[0], NULL, argc);
}
