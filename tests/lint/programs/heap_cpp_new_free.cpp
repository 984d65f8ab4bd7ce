// Wrong on purpose: cpp new free.
#include <stdlib.h>
#include <sys/stat.h>

struct S {
  int a;
};
static S* mk() { return new S(); }
static void drop(void* p) { free(p); }
int main(int c, char**) {
  S* s = mk();
  s->a = c;
  drop(s);
  return 0;
}
