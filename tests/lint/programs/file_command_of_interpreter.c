// Commands that are read and run one after the other, without an end.
#include <stdio.h>
#include <string.h>

static int count(int argc, char** argv) {
  FILE* f = fopen(argv[argc - 1], "r");
  int lines = 0;
  if (!f) return 1;
  for (int c; (c = fgetc(f)) != EOF;) lines += c == '\n';
  printf("%d\n", lines);
  return 0;
}

static int quiet(int argc, char** argv) { return argc + (argv[0] == NULL); }

static int (*const commands[])(int, char**) = {count, quiet};

int main(void) {
  char line[256];
  char* words[] = {line};
  for (;;) {
    if (scanf("%255s", line) != 1) line[0] = 0;
    commands[line[0] == 'q'](1, words);
  }
}
