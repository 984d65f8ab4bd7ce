// A record is used as another that begins alike, and the function that it holds frees.
#include <stdlib.h>
#include <string.h>

struct stream {
  long kind;
  void (*release)(void* of, void* block);
  char text[16];
};
struct any {
  long kind;
  void (*end)(void* of, void* block);
};

static void drop(void* of, void* block) {
  (void)of;
  free(block);
}

static struct stream one = {1, drop, "one"};

static int run(struct any* a) {
  char* block = malloc(8);
  if (!block) return 1;
  a->end(a, block);
  return block[0];
}

int main(void) { return run((struct any*)&one); }
