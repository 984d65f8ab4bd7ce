// Right: a descriptor's number goes on with a flag beside it, and who gets that takes it out again.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

static FILE* stream_of(int number_and_way) {
  FILE* f = fdopen(number_and_way >> 1, number_and_way & 1 ? "w" : "r");
  if (!f) exit(1);
  return f;
}

static FILE* reads(int fd) { return stream_of(fd << 1); }
static FILE* writes(int fd) { return stream_of((fd << 1) + 1); }

static int first(const char* name) {
  int fd = open(name, O_RDONLY);
  if (fd < 0) return -1;
  FILE* f = reads(fd);
  int c = getc(f);
  fclose(f);
  return c;
}

static void note(const char* name) {
  int fd = open(name, O_WRONLY);
  if (fd < 0) return;
  FILE* f = writes(fd);
  fputs("noted", f);
  fclose(f);
}

int main(int argc, char** argv) {
  note(argv[0]);
  return first(argv[0]);
}
