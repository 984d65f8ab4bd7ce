// One of three options is forgotten when they are asked for again.
#include <stdio.h>

void note(int n);

int print(int a, int b, int z, int s, int v, FILE* out) {
  int wrong = 0;
  if (a) note(1);
  if (b) note(2);
  if (z || s || v) {
    wrong = ferror(out);
    fclose(out);
  }
  if (a) note(3);
  if (b) note(4);
  if (!(z || s)) wrong |= fclose(out);
  return wrong;
}

int main(int argc, char** argv) {
  FILE* out = fopen(argv[1], "w");
  if (!out) return 1;
  return print(argc & 1, argc & 2, argc & 4, argc & 8, argc & 16, out);
}
