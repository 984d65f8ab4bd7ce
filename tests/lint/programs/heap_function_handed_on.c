// The function that a record is given comes by a setter.
#include <stdlib.h>

struct hooks {
  long kind;
  void (*end)(char* block);
};

static void drop(char* block) { free(block); }

static void set_end(struct hooks* h, void (*end)(char*)) { h->end = end; }

static int run(struct hooks* h) {
  char* block = malloc(8);
  if (!block) return 1;
  h->end(block);
  return block[0];
}

int main(int argc, char** argv) {
  (void)argv;
  struct hooks h = {argc, 0};
  set_end(&h, drop);
  return run(&h);
}
