// Right: what is opened second is never negative, what is returned never null, by the constants
// that are passed; a fatal report does not come back.
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { kNote, kFatal };

static void report(int level, const char* format, ...) {
  va_list list;
  va_start(list, format);
  vfprintf(stderr, format, list);
  va_end(list);
  if (level == kFatal) exit(1);
}

static int open_or_die(const char* name, int flags) {
  for (;;) {
    int fd = open(name, flags, 0666);
    if (fd >= 0) return fd;
    if (errno == EINTR) continue;
    report(kFatal, "cannot open %s\n", name);
  }
}

static int too_large(size_t size, int gently) {
  if (size > 1000) {
    report(gently ? kNote : kFatal, "%zu\n", size);
    return -1;
  }
  return 0;
}

static char* make(size_t size, int gently) {
  if (too_large(size, gently)) return NULL;
  char* block = malloc(size ? size : 1);
  if (!block) {
    report(kNote, "no memory\n");
    if (!gently) exit(1);
    return NULL;
  }
  return block;
}

static char* resize(char* block, size_t size) {
  if (!size) {
    free(block);
    return make(0, 0);
  }
  block = realloc(block, size);
  if (!block) report(kFatal, "no memory\n");
  return block;
}

char* grow(char* text, size_t size) {
  char* more = resize(text, size);
  if (!more) free(text);
  return more;
}

int copy(const char* from, const char* to) {
  int in = open(from, O_RDONLY);
  if (in < 0) return -1;
  int out = open_or_die(to, O_WRONLY | O_CREAT);
  if (out < 0) return -2;
  char byte;
  if (read(in, &byte, 1) == 1 && write(out, &byte, 1) != 1) report(kNote, "cannot write %s\n", to);
  close(out);
  close(in);
  return 0;
}
