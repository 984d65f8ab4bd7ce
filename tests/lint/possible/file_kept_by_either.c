// Left open only if who reads changes what the options say.
#include <stdio.h>
#include <stdlib.h>

struct options {
  FILE* shared;
  int commands;
};
struct options opt;

int fetch(const char* name, int (*read_all)(FILE*)) {
  FILE* to;
  if (!opt.shared || (opt.commands & 4)) {
    to = fopen(name, "wb");
    if (!to) return -1;
  } else {
    to = opt.shared;
  }
  int got = read_all(to);
  if (!opt.shared || (opt.commands & 4)) fclose(to);
  return got;
}

static int nothing(FILE* to) {
  opt.commands |= 1;
  return fputs("", to);
}

int main(int argc, char** argv) {
  opt.commands = argc;
  if (argc > 5) opt.shared = stdout;
  return fetch(argv[0], nothing);
}
