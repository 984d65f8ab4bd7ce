// A bit that was not asked for may be set.
#include <stdlib.h>
#include <string.h>

enum { kAll = 1, kMatch = 2, kBelow = 4 };

int count(char** names, int n, int flags) {
  int found = 0;
  char* path = NULL;
  for (int i = 0; i < n; i++) {
    if (flags & (kAll | kMatch)) {
      path = strdup(names[i]);
      if (!path) return -1;
      if (*path == '.') {
        free(path);
        continue;
      }
    }
    if (flags & kBelow) {
      found += names[i][0] == 'a';
      free(path);
    }
    found += names[i][0] == 'b';
  }
  return found;
}
