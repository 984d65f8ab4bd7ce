// Right: a mark in the record says which texts are its own, here and where a wrapper frees.
#include <stdlib.h>
#include <string.h>

struct item {
  struct item* child;
  int kind : 8, borrows_text : 1, borrows_key : 1;
  char *text, *key;
};

static void give_back(void* p) { free(p); }

void drop(struct item* i) {
  if (!i) return;
  if (!i->borrows_text && i->child) drop(i->child);
  if (!i->borrows_text && i->text) free(i->text);
  if (!i->borrows_key && i->key) give_back(i->key);
  free(i);
}

struct item* make(struct item* child, const char* text) {
  struct item* i = calloc(1, sizeof *i);
  if (!i) return 0;
  i->child = child;
  i->text = strdup(text);
  return i;
}

struct item* refer(const char* text) {
  struct item* i = calloc(1, sizeof *i);
  if (!i) return 0;
  i->borrows_text = 1;
  i->text = (char*)text;
  return i;
}

void name(struct item* i, const char* key) {
  if (!i->borrows_key && i->key) free(i->key);
  i->key = (char*)key;
  i->borrows_key = 1;
}

int main(int argc, char** argv) {
  const char key[] = "number", text[] = "a text";
  struct item* inner = argc > 1 ? make(0, argv[1]) : refer(text);
  if (!inner) return 1;
  name(inner, key);
  struct item* outer = make(inner, argv[0]);
  if (outer)
    drop(outer);
  else
    drop(inner);
  return 0;
}
