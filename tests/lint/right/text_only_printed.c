// A text that is printed is what it was.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char* prefix = "";

static int get(void) {
  char* file = "/etc/default";
  if (prefix[0]) {
    size_t size = strlen(prefix) + 20;
    file = malloc(size);
    if (!file) return 1;
    snprintf(file, size, "%s/default", prefix);
  }
  puts(file);
  if (prefix[0]) free(file);
  return 0;
}

int main(int argc, char** argv) {
  if (argc > 1) prefix = argv[1];
  return get();
}
