// What is written to before it is returned is not null.
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
  w->flags = 0;
  w->text = NULL;
  return w;
}

static struct word* expand(const char* text) {
  struct word* w = take();
  w->text = strdup(text);
  return w;
}

struct word* f(const char* name, const char* other) {
  char* value = strdup(name);
  struct word* w = NULL;
  if (!value) return NULL;
  if (other) {
    free(value);
    w = expand(other);
  }
  if (w == NULL) {
    w = take();
    w->text = value;
    w->flags = value[0];
  }
  return w;
}
