// What a function was given is closed there, but not standard input.
#include <stdio.h>

static int count(FILE* f) {
  int lines = 0, c;
  while ((c = getc(f)) != EOF) lines += c == '\n';
  if (f == stdin)
    clearerr(f);
  else if (fclose(f) != 0)
    lines = -1;
  return lines;
}

int main(int argc, char** argv) {
  int lines = 0;
  if (argc < 2) lines += count(stdin);
  for (int i = 1; i < argc; ++i) {
    FILE* f = fopen(argv[i], "r");
    if (f != NULL) lines += count(f);
  }
  printf("%d\n", lines);
  return fclose(stdin) != 0;
}
