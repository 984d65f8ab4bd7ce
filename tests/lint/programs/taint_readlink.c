// Wrong on purpose: readlink.
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

static int where(char* o, size_t n) {
  ssize_t r = readlink("/proc/self/exe", o, n - 1);
  if (r < 0) return -1;
  o[r] = 0;
  return 0;
}
int main(void) {
  char p[300];
  if (where(p, 300)) return 1;
  syslog(3, p);
  return 0;
}
