// Right: the cases that open a file are those whose file is closed.
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum { kRead, kAppend, kWrite, kText, kCopy };

int redirect(int kind, const char* name, int unit, int text) {
  bool opens = true;
  int d = -1, flags = 0;
  switch (kind) {
    case kRead:
      flags = O_RDONLY;
      break;
    case kAppend:
      flags = O_WRONLY | O_APPEND;
      break;
    case kWrite:
      if (strlen(name) == 1)
        flags = O_WRONLY;
      else
        flags = O_WRONLY | O_CREAT | O_EXCL;
      break;
    case kText:
      opens = false;
      d = text;
      break;
    case kCopy:
      opens = false;
      if ((d = name[0] - '0') < 0) return -1;
      break;
    default:
      return -1;
  }
  if (opens) d = open(name, flags, 0666);
  if (d < 0) return -1;
  if (dup2(d, unit) < 0) {
    if (kind != kCopy && kind != kText) close(d);
    return -1;
  }
  if (kind < kText) close(d);
  return 0;
}
