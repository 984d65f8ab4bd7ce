// Right: the default of the switch in which the file was opened says that it is closed.
#include <fcntl.h>
#include <unistd.h>

enum { kStandard, kCopy };

int redirect(int kind, const char* name, int unit) {
  int d = -1;
  switch (kind) {
    case kStandard:
      d = 0;
      break;
    case kCopy:
      d = name[0] - '0';
      break;
    default:
      d = open(name, O_RDONLY);
      break;
  }
  if (d < 0) return -1;
  int failed = dup2(d, unit) < 0;
  if (kind != kStandard && kind != kCopy) close(d);
  return failed ? -1 : 0;
}
