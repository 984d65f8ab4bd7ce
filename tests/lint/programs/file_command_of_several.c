// Several commands of one program, which goes on behind each.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int count(int argc, char** argv) {
  FILE* f = fopen(argv[1], "r");
  int lines = 0;
  if (!f) return 1;
  for (int c; (c = fgetc(f)) != EOF;) lines += c == '\n';
  printf("%d\n", lines);
  return 0;
}

static int first(int argc, char** argv) {
  FILE* f = fopen(argv[1], "r");
  if (!f) return 1;
  putchar(fgetc(f));
  return 0;
}

static int (*const programs[])(int, char**) = {count, first};

static int run(int which, int argc, char** argv) {
  int status = programs[which](argc, argv);
  fflush(stdout);
  return status;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  for (int n = 0; n < 2; ++n) run(n, argc, argv);
  return 0;
}
