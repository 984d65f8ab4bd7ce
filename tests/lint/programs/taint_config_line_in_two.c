// A line of a file is parted at '='; what follows is kept in a record, and a greeting says it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
  int port;
  char banner[128];
} settings;

static int read_settings(const char* path) {
  FILE* f = fopen(path, "r");
  if (!f) return -1;
  char line[160];
  while (fgets(line, sizeof line, f)) {
    char* equals = strchr(line, '=');
    if (!equals) continue;
    *equals = 0;
    if (!strcmp(line, "banner"))
      strncpy(settings.banner, equals + 1, sizeof settings.banner - 1);
    else
      settings.port = atoi(equals + 1);
  }
  fclose(f);
  return 0;
}

static void greet(int s) { dprintf(s, settings.banner); }

int main(void) {
  if (read_settings("/etc/greet.conf") == 0) greet(1);
  return settings.port;
}
