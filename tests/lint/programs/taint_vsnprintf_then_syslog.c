// Wrong on purpose: vsnprintf then syslog.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <syslog.h>

static void say(int pri, const char* f, ...) {
  char b[512];
  va_list a;
  va_start(a, f);
  vsnprintf(b, sizeof b, f, a);
  va_end(a);
  syslog(pri, b);
}
int main(void) {
  char* u = getenv("USER");
  if (!u) return 1;
  char m[100];
  snprintf(m, 100, "hi %s", u);
  say(3, "x: %s", m);
  return 0;
}
