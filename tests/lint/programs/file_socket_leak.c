// Wrong on purpose: socket leak.
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

int main2(int port) {
  int s = socket(AF_INET, SOCK_STREAM, 0);
  if (s < 0) return -1;
  int on = 1;
  if (setsockopt(s, 1, 2, &on, sizeof on) < 0) {
    perror("opt");
    return -1;
  }
  close(s);
  return 0;
}
int main(int a, char** v) { return main2(a); }
