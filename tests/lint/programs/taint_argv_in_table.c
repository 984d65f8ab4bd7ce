// Wrong on purpose: argv in table.
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct opt {
  const char* fmt;
};
static struct opt o;
static void prs(int a, char** v) {
  for (int i = 1; i < a; i++)
    if (!strcmp(v[i], "-f") && i + 1 < a) o.fmt = v[++i];
}
int main(int a, char** v) {
  o.fmt = "%d\n";
  prs(a, v);
  printf(o.fmt, 3);
  return 0;
}
