// Several programs in one: each is called through a table, and the process ends behind it.
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

static void __attribute__((noreturn)) run_and_exit(int which, int argc, char** argv) {
  int status = programs[which](argc, argv);
  fflush(stdout);
  exit(status);
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  run_and_exit(!strcmp(argv[0], "first"), argc, argv);
}
