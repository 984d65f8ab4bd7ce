// Letters are copied one by one, some are left out.
#include <ctype.h>
#include <stdio.h>
#include <syslog.h>

static void clean(char* to, const char* from) {
  while (*from) {
    if (isprint((unsigned char)*from)) *to++ = *from;
    from++;
  }
  *to = 0;
}

int main(void) {
  char line[80], text[80];
  if (!fgets(line, sizeof line, stdin)) return 1;
  clean(text, line);
  syslog(LOG_NOTICE, text);
  return 0;
}
