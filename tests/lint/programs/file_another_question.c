// Wrong on purpose: the file is lost where the answer is no; the next question is another one.
#include <stdio.h>
#include <string.h>

static int is_option(const char* text, const char* name) { return strcmp(text, name) == 0; }

static int run(char** v) {
  if (is_option(v[0], "-i")) {
    FILE* f = fopen(v[1], "r");
    if (!f) return 1;
    if (fgetc(f) == 'x') return 2;
    fclose(f);
  } else if (is_option(v[0], "-o")) {
    puts("out");
  }
  if (is_option(v[1], "-i")) puts("in");
  return 0;
}

int main(int argc, char** argv) {
  int bad = 0;
  for (int i = 1; i + 1 < argc; i += 2) bad += run(argv + i);
  return bad;
}
