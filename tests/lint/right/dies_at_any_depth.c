// Right: a fatal report does not come back, whether it was asked for far above or near.
#include <stdio.h>
#include <stdlib.h>

static void say(int level) {
  puts("error");
  if (level > 2) exit(level);
}
static void report(int level) { say(level); }
static void at_line(int level) { report(level); }
static void in_file(int level) { at_line(level); }
static void of_program(int level) { in_file(level); }

void far_above(void) { of_program(3); }

int near(int bad) {
  char* text = malloc(8);
  if (!text) return -1;
  if (bad) {
    free(text);
    report(3);
  }
  text[0] = 1;
  free(text);
  return 0;
}
