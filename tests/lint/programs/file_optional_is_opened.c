// Asked for a file that may be missing, the function opens it, two calls further down: it is lost.
#include <stdio.h>
#include <unistd.h>

enum mode { NEEDED, OPTIONAL, PROBE };

static int counts[8], limits[8];

static FILE* search(const char* name, const char** found, enum mode mode) {
  FILE* f = NULL;
  if (mode == PROBE) {
    *found = access(name, R_OK) == 0 ? name : NULL;
  } else {
    f = fopen(name, "r");
    *found = f ? name : NULL;
  }
  return f;
}

static FILE* include(const char* name, const char** found, enum mode mode) {
  const char* path;
  FILE* f = search(name, &path, mode);
  if (counts[0] > limits[0]) puts("first");
  if (counts[1] > limits[1]) puts("second");
  if (counts[2] > limits[2]) puts("third");
  if (counts[3] > limits[3]) puts("fourth");
  if (counts[4] > limits[4]) puts("fifth");
  if (counts[5] > limits[5]) puts("sixth");
  if (mode < OPTIONAL && !f) puts("none");
  if (f) counts[6]++;
  *found = path;
  return f;
}

int run(int argc, char** argv) {
  const char* found;
  counts[argc & 7] = argc;
  include(argv[0], &found, OPTIONAL);
  puts(found ? found : "none");
  FILE* f = include(argv[0], &found, NEEDED);
  if (f) fclose(f);
  f = include(argv[0], &found, OPTIONAL);
  if (f) fclose(f);
  return 0;
}
