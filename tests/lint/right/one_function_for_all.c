// Right: what a function does hangs on bits of a number; the call that begins frees nothing.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIND(flags) ((flags) & 7)
enum { kBegin = 0, kAppend = 1, kEnd = 2 };

static char *path, *end;

static int change(const char* part, int flags) {
  if (KIND(flags) == kAppend) {
    size_t length = strlen(part);
    if (end - path + length > 90) {
      free(path);
      return -1;
    }
    memcpy(end, part, length + 1);
    end += length;
    return 0;
  }
  if (KIND(flags) == kEnd) {
    puts(path);
    free(path);
    return 0;
  }
  path = malloc(100);
  if (path == NULL) return -2;
  end = path;
  *end = 0;
  return 0;
}

int main(int argc, char** argv) {
  if (change(NULL, kBegin) == -2) return 1;
  for (int i = 1; i < argc; ++i) {
    if (change(argv[i], kAppend) != 0) return 1;
  }
  change(NULL, kEnd);
  return 0;
}
