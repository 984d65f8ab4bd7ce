// What getopt leaves in its global variable.
#include <stdio.h>
#include <unistd.h>

static const char* title = "none";

int main(int argc, char** argv) {
  int c;
  while ((c = getopt(argc, argv, "t:v")) != -1) {
    if (c == 't') title = optarg;
  }
  printf(title);
  return 0;
}
