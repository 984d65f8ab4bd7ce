// What kind of file it is decides whether it is opened, and is asked again where it is closed.
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
int next_mode(int n);
int f(char** names, int count) {
  int fd = -1;
  for (int n = 1; n < count; ++n) {
    unsigned mode = next_mode(n);
    if ((mode & 0xf000) != 0xa000) {
      fd = open(names[n], O_RDONLY);
      if (fd < 0) return 1;
    }
    sleep(1);
    if ((mode & 0xf000) == 0xa000) {
      puts(names[n]);
    } else {
      char c;
      if (read(fd, &c, 1) == 1) putchar(c);
      close(fd);
    }
  }
  return 0;
}
int main(int argc, char** argv) { return f(argv, argc); }
