// As much of an array is cleared as is asked for; the text that was freed lies behind it.
#include <stdlib.h>
#include <string.h>

struct record {
  int kind;
  char name[64];
  char* text;
};

static int clear(struct record* r, size_t length) {
  free(r->text);
  memset(r->name, 0, length);
  return r->text[0];
}

int main(int argc, char** argv) {
  struct record r;
  r.text = strdup(argv[0]);
  return r.text ? clear(&r, argc) : 1;
}
