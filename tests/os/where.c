// Prints where a block lies, and the last of many, then the mappings of the process. Given a word,
// it starts itself anew without address randomization first.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/personality.h>
#include <unistd.h>

enum { kRefused = 77 };

int main(int argc, char** argv) {
  if (argc > 1) {
    argv[1] = NULL;
    if (personality(ADDR_NO_RANDOMIZE) != -1) execv("/proc/self/exe", argv);
    return kRefused;
  }
  dprintf(1, "%p\n", malloc(100));
  void* last = NULL;
  for (size_t i = 0; i < 20000; ++i) last = malloc(i % 500);
  dprintf(1, "%p\n", last);
  const int maps = open("/proc/self/maps", O_RDONLY);
  char text[4096];
  for (ssize_t n; (n = read(maps, text, sizeof(text))) > 0;) {
    if (write(1, text, (size_t)n) != n) return 1;
  }
  return 0;
}
