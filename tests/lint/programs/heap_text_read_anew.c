// A text that is read anew may be another one.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char prefix[64];

static int get(void) {
  char* file = "/etc/default";
  if (prefix[0]) {
    size_t size = strlen(prefix) + 20;
    file = malloc(size);
    if (!file) return 1;
    snprintf(file, size, "%s/default", prefix);
  }
  if (scanf("%63s", prefix) != 1) puts(file);
  if (prefix[0]) free(file);
  return 0;
}

int main(int argc, char** argv) {
  if (argc > 1) strncpy(prefix, argv[1], sizeof prefix - 1);
  return get();
}
