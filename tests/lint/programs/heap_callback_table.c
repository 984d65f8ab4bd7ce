// Wrong on purpose: callback table.
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct mod {
  const char* n;
  void (*init)(struct mod*);
  void (*fini)(struct mod*);
  char* priv;
};
static void ai(struct mod* m) { m->priv = malloc(10); }
static void af(struct mod* m) { free(m->priv); }
static void bi(struct mod* m) { m->priv = strdup("b"); }
static void bf(struct mod* m) {
  free(m->priv);
  m->priv = NULL;
}
static struct mod mods[] = {{"a", ai, af, 0}, {"b", bi, bf, 0}};
static struct mod one = {"a", ai, af, 0};
int main(int a, char** v) {
  one.init(&one);
  if (!one.priv) return 1;
  one.fini(&one);
  if (a > 1) one.priv[0] = 1;
  mods[0].init(&mods[0]);
  mods[0].fini(&mods[0]);
  return 0;
}
