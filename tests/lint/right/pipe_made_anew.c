// Right: the two ends of a pipe are closed and others come in their place. pipe says 0 or -1.
#include <unistd.h>

static int ends[2];

static int make(int* both) {
  int failed = pipe(both);
  if (failed < 0) return -1;
  if (both[0] >= 1000) {
    close(both[0]);
    close(both[1]);
    return -1;
  }
  return 0;
}

int begin(void) { return make(ends); }

int begin_again(void) {
  close(ends[0]);
  close(ends[1]);
  return make(ends);
}
