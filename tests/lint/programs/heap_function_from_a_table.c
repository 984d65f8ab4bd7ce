// A handle takes its function from a constant table of records.
#include <stdlib.h>
struct ops {
  const char* name;
  void (*rel)(void*);
};
static void drop(void* p) { free(p); }
static void keepit(void* p) { *(char*)p = 1; }
static const struct ops table[] = {{"a", drop}, {"b", keepit}};
typedef struct {
  int fd;
  const char* n;
  int k;
  void (*rel)(void*);
} handle;
static void set(handle* h, int which) {
  h->rel = table[which].rel;
  h->n = table[which].name;
}
int main(int argc, char** argv) {
  (void)argv;
  handle h;
  char* p = malloc(8);
  if (!p) return 1;
  set(&h, argc & 1);
  h.rel(p);
  free(p);
  return 0;
}
