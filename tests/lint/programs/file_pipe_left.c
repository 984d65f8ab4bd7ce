// Both ends of a pipe are left when writing fails.
#include <unistd.h>

int f(int wanted) {
  int ends[2];
  if (pipe(ends) < 0) return -1;
  if (write(ends[1], &wanted, sizeof wanted) != sizeof wanted) return -2;
  close(ends[0]);
  close(ends[1]);
  return 0;
}
