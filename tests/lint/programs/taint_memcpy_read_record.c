// Wrong on purpose: memcpy read record.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct pkt {
  short len;
  char d[100];
};
int main(void) {
  struct pkt p;
  char m[120];
  if (read(0, &p, sizeof p) < 4) return 1;
  memcpy(m, p.d, 100);
  m[100] = 0;
  fprintf(stderr, m);
  return 0;
}
