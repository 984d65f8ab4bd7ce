// What loads plugins is not all that stores to a variable that they see.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

int kind;
static char* name;

int f(const char* more) {
  free(name);
  switch (kind) {
    case 0:
      name = strdup("none");
      break;
    case 1:
      name = strdup(more);
      break;
  }
  return name ? name[0] : 0;
}

int main(int argc, char** argv) {
  if (argc > 2 && !dlopen(argv[2], RTLD_NOW)) return 1;
  if (argc > 1) kind = 1;
  return f(argv[0]) + f(argv[0]);
}
