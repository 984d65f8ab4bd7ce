// A switch says what to do with each number that the variable ever holds.
#include <stdlib.h>
#include <string.h>

static int kind;
static char* name;

void choose(int n) { kind = n > 9 ? 2 : n > 5 ? 1 : 0; }

int f(const char* more) {
  free(name);
  switch (kind) {
    case 0:
      name = strdup("none");
      break;
    case 1:
      name = strdup("one");
      break;
    case 2:
      name = strdup(more);
      break;
  }
  return name ? name[0] : 0;
}

int main(int argc, char** argv) {
  choose(argc);
  return f(argv[0]) + f(argv[0]);
}
