// Right: a string that holds something else.
#include <stdio.h>
#include <stdlib.h>
#include <string>

void f() {
  const char* e = getenv("E");
  if (!e) return;
  std::string s = e;
  s = "%d\n";
  printf(s.c_str(), (int)s.size());
}
