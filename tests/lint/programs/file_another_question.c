// Wrong on purpose: the file is lost where the answer is no; the next question is another one.
#include <stdio.h>
#include <string.h>

static int is_option(const char* text, const char* name) { return strcmp(text, name) == 0; }

int main(int argc, char** argv) {
  if (argc < 3) return 1;
  if (is_option(argv[1], "-i")) {
    FILE* f = fopen(argv[2], "r");
    if (!f) return 1;
    if (fgetc(f) == 'x') return 2;
    fclose(f);
  } else if (is_option(argv[1], "-o")) {
    puts("out");
  }
  if (is_option(argv[2], "-i")) puts("in");
  return 0;
}
