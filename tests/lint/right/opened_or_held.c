// What was opened here is not what a record held before.
#include <stdio.h>
#include <string.h>

struct reader {
  FILE* in;
  int lines;
};

static int count(struct reader* r, const char* name) {
  FILE* in = r->in;
  int lines = 0, c;
  if (name != NULL) {
    in = fopen(name, "r");
    if (in == NULL) return -1;
  }
  while ((c = getc(in)) != EOF) lines += c == '\n';
  if (in != r->in)
    fclose(in);
  else
    r->lines = lines;
  return lines;
}

int main(int argc, char** argv) {
  struct reader r = {fopen(argv[0], "r"), 0};
  if (r.in == NULL) return 1;
  const int lines = count(&r, argc > 1 ? argv[1] : NULL);
  fclose(r.in);
  return lines < 0;
}
