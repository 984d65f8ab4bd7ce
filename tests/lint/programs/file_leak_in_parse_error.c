// Wrong on purpose: leak in parse error.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int parse_line(const char* l) { return strchr(l, '=') != 0; }
static int read_cfg(const char* p) {
  FILE* f = fopen(p, "r");
  char l[200];
  int n = 0;
  if (!f) return -1;
  while (fgets(l, sizeof l, f)) {
    if (l[0] == '#') continue;
    if (!parse_line(l)) {
      fprintf(stderr, "bad\n");
      return -1;
    }
    n++;
  }
  fclose(f);
  return n;
}
int main(int a, char** v) { return read_cfg(v[1]); }
