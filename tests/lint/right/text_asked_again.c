// Right: another text is written between two questions for one.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char* copies[8];

static void trim(char* text) { text[strlen(text) - 1] = 0; }

static void prepare(char* path) {
  copies[0] = strdup(path);
  if (copies[0]) trim(copies[0]);
  trim(path);
}

static int pipe_to(char* path, char* outfile) {
  int out = -1;
  if (outfile && *outfile && (out = open(outfile, O_CREAT | O_WRONLY, 0600)) < 0) return -1;
  prepare(path);
  write(out, "x", 1);
  if (outfile && *outfile) close(out);
  return 0;
}

int main(int argc, char** argv) {
  char name[64];
  if (argc < 3 || !fgets(name, 64, stdin)) return 1;
  trim(name);
  if (pipe_to(argv[1], name)) return 1;
  return pipe_to(argv[1], argv[2]);
}
