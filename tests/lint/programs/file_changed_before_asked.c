// The function itself says that it has begun, and then returns without its file.
#include <stdio.h>

static struct {
  int begun, lines;
} log_state;

int begin(const char* name) {
  if (log_state.begun) return 0;
  FILE* f = fopen(name, "w");
  if (!f) return -1;
  log_state.begun = fputs("begun\n", f) >= 0;
  log_state.lines = fputs("again\n", f);
  if (log_state.begun) return 1;
  fclose(f);
  return 0;
}
