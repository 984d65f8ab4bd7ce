// Right: what leads to no place in the text that was freed is null, or has been made anew.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int no_space(const char* text) {
  char* p = strdup(text);
  if (!p) return 1;
  char* q = strchr(p, ' ');
  free(p);
  if (q) return 1;
  free(q);
  return 0;
}

static int no_line(void) {
  char* line = malloc(80);
  if (!line) return 1;
  char* got = fgets(line, 80, stdin);
  if (!got) {
    free(line);
    free(got);
    return 1;
  }
  puts(got);
  free(line);
  return 0;
}

static int rest(const char* text) {
  char* p = strdup(text);
  if (!p) return 1;
  char* r = strchr(p, ' ');
  if (r) r = strdup(r);
  free(p);
  if (r) puts(r);
  free(r);
  return 0;
}

int main(int argc, char** argv) { return no_space(argv[argc - 1]) + no_line() + rest(argv[0]); }
