// A function of the program's own that is named as libc's and takes fewer arguments, and a wide
// format that is constant.
#include <stdlib.h>
#include <wchar.h>

struct pair {
  char* first;
  char* second;
};
struct pair* memmove(struct pair* to, const struct pair* from);

int main(int argc, char** argv) {
  struct pair from = {malloc(10), NULL}, to = {NULL, NULL};
  memmove(&to, &from);
  if (argc > 1) wprintf(L"%s\n", argv[1]);
  free(from.first);
  return 0;
}
