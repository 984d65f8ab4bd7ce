// An interpreter's options lie in a variable of the function that calls its commands, and calls
// itself for a command in a command: it then has another one.
#include <stdio.h>
#include <string.h>

struct options {
  int set[4];
};

int run(const char* text, FILE* out);

static int print(struct options* o, const char* text, FILE* out) {
  FILE* copy = NULL;
  if (o->set[1]) {
    copy = fopen(text, "w");
    if (!copy) return 1;
    fputs(text, copy);
  }
  if (text[0] == '(') run(text + 1, out);
  if (o->set[1]) fclose(copy);
  return 0;
}

int run(const char* text, FILE* out) {
  struct options o = {{0}};
  for (; *text == '-' && text[1]; text += 2) o.set[text[1] & 3] = 1;
  int (*volatile command)(struct options*, const char*, FILE*) = print;
  return command(&o, text, out);
}

int main(int argc, char** argv) { return argc > 1 ? run(argv[1], stdout) : 1; }
