// Right: a short text lies in its record, a long one elsewhere; the length says where.
#include <stdlib.h>
#include <string.h>

enum { kShort = 15 };

struct text {
  int length;
  char* at;
  char within[kShort + 1];
};

static void resize(struct text* t, int length) {
  if (t->length <= kShort) {
    if (length > kShort) {
      char* longer = malloc((size_t)length + 1);
      if (longer == NULL) abort();
      memcpy(longer, t->within, (size_t)t->length);
      t->at = longer;
    }
  } else if (length <= kShort) {
    char* old = t->at;
    memcpy(t->within, old, (size_t)length);
    free(old);
    t->at = t->within;
  } else {
    t->at = realloc(t->at, (size_t)length + 1);
    if (t->at == NULL) abort();
  }
  t->length = length;
}

struct panel {
  int width;
  struct text header;
};

struct panel* make_panel(int width, int length) {
  struct panel* p = malloc(sizeof *p);
  if (p == NULL) return NULL;
  p->width = width;
  p->header.length = 0;
  p->header.at = p->header.within;
  resize(&p->header, length);
  return p;
}
