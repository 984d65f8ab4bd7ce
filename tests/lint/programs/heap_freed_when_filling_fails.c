// What fill frees when it fails is freed again with the record. That it may fail before it has
// anything to free helps nobody: the field is null then.
#include <stdlib.h>
#include <string.h>

struct pair {
  char *first, *second;
};

static void end(struct pair* p) {
  if (p == NULL) return;
  free(p->first);
  free(p->second);
  free(p);
}

static int fill(struct pair* p, const char* text) {
  p->first = strdup(text);
  if (p->first == NULL) return -1;
  p->second = strdup(text);
  if (p->second == NULL) {
    free(p->first);
    return -1;
  }
  return 0;
}

struct pair* make(const char* text) {
  struct pair* p = calloc(1, sizeof *p);
  if (p == NULL) return NULL;
  if (fill(p, text) < 0) {
    end(p);
    return NULL;
  }
  return p;
}
