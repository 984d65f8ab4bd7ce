// Right: the part of a text that is empty.
#include <stdio.h>
#include <string.h>

void f(void) {
  char l[80];
  if (!fgets(l, 80, stdin)) return;
  char* v = strchr(l, '=');
  if (!v) return;
  *v = 0;
  printf(v);
}
