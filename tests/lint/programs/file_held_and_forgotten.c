// What was opened here may be what the record holds by now, and is lost with it.
#include <stdio.h>

struct reader {
  FILE* in;
  int lines;
};

static void begin(struct reader* r, FILE* held, int lines) {
  r->in = held;
  r->lines = lines;
}

static int count(FILE* held, const char* name, int n) {
  struct reader r;
  begin(&r, held, n);
  FILE* in = fopen(name, "r");
  int lines = 0;
  if (in == NULL) return -1;
  if (r.lines > 9) r.in = in;
  while (getc(in) != EOF) ++lines;
  if (in != r.in) fclose(in);
  return lines;
}

int main(int argc, char** argv) { return count(stdin, argv[0], argc) < 0; }
