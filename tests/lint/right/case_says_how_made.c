// Right: the case of the switch in which the file was opened says that it is closed.
#include <fcntl.h>
#include <unistd.h>

enum { kFile, kClose, kCopy };

int redirect(int kind, const char* name, int unit) {
  int d = -1;
  switch (kind) {
    case kFile:
      d = open(name, O_RDONLY);
      break;
    case kCopy:
      d = name[0] - '0';
      break;
    default:
      break;
  }
  if (d < 0) return -1;
  int failed = dup2(d, unit) < 0;
  if (kind != kCopy) close(d);
  return failed ? -1 : 0;
}
