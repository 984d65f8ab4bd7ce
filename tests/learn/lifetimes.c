// Three functions whose objects live for moments, for a sixth of a second, and for ever.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEEP(name)                                 \
  __attribute__((noinline)) char* name(size_t n) { \
    char* p = malloc(n);                           \
    memset(p, 1, n);                               \
    return p;                                      \
  }

KEEP(brief)
KEEP(a_while)
KEEP(forever)

int main(int argc, char** argv) {
  static char* held[3000];
  for (int i = 0; i < 30000; ++i) free(brief(400));
  for (int i = 0; i < 3000; ++i) held[i] = a_while(400);
  usleep(160000);
  for (int i = 0; i < 3000; ++i) free(held[i]);
  for (int i = 0; i < 3000; ++i) held[i] = forever(400);
  if (argc > 1 && argv[1][0] == 'i') usleep(300000);
  if (argc > 1 && argv[1][0] == 's') {
    if (write(1, "ready\n", 6) != 6) return 1;
    pause();
  }
  return 0;
}
