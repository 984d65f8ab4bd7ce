// Formats that end within what a percent sign begins.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

int main(int argc, char** argv) {
  char* text = strdup(argv[argc - 1]);
  if (!text) return 1;
  printf("100%");
  printf("%s: 50% ", text);
  syslog(LOG_ERR, "%s: %5", text);
  free(text);
  return 0;
}
