// A place in the text that was freed is used where it is there.
#include <stdlib.h>
#include <string.h>

static int space(const char* text) {
  char* p = strdup(text);
  if (!p) return 1;
  char* q = strchr(p, ' ');
  free(p);
  return q ? *q : 0;
}

int main(int argc, char** argv) { return space(argv[argc - 1]); }
