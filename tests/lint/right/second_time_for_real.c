// Right: the loop is gone round once more only where nothing was opened the first time.
#include <fcntl.h>
#include <unistd.h>

int save(const char* name, const char* text, int converts, int keeps) {
  int fd, done = 0;
  for (int checks = 1;; checks = 0) {
    if (!converts || keeps) checks = 0;
    if (checks) {
      fd = -1;
    } else {
      while ((fd = open(name, O_WRONLY | (keeps ? O_APPEND : O_CREAT), 0600)) < 0) {
        if (unlink(name) < 0) return -1;
      }
      if (keeps && ftruncate(fd, 0) < 0) done--;
    }
    done += text[0] == 'x' ? 1 : 2;
    if (!checks) {
      if (write(fd, text, 1) != 1) done = -1;
      break;
    }
    if (done > 7) return -1;
  }
  close(fd);
  return done;
}
