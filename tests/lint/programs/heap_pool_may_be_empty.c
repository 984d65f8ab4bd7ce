// What is written to only if it is there may be null.
#include <stdlib.h>
#include <string.h>

struct word {
  char* text;
  int flags;
};
static struct word* pool[8];
static unsigned pooled;

static struct word* take(void) {
  struct word* w = pool[--pooled % 8];
  if (w) w->text = NULL;
  return w;
}

int f(const char* name, const char* other) {
  char* value = strdup(name);
  struct word* w = NULL;
  if (!value) return 1;
  if (other) {
    free(value);
    w = take();
  }
  if (w == NULL) return value[0];
  return w->flags;
}
