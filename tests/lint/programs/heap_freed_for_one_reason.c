// As right/freed_for_either_reason.c, but the second time whether the value is right is not asked.
#include <stdlib.h>
#include <string.h>

struct value {
  char *name, *space;
};

static int check(const char* text) { return text[0] == 'a' ? 0 : 2; }
static char* find(char* text) { return strchr(text, ':'); }

static int make(char* text, struct value** value, char* scope) {
  char *space = NULL, *name = NULL;
  int wrong = check(text);
  if (wrong == 0 && scope != NULL) {
    name = strdup(text);
    char* prefix = find(text);
    if (prefix != NULL) {
      char* found = find(prefix + 1);
      if (found == NULL)
        wrong = 1;
      else if (value != NULL)
        space = strdup(found);
    }
    if (name != NULL && (value == NULL || wrong != 0)) free(name);
  }
  if (value != NULL) {
    struct value* v = malloc(sizeof *v);
    if (v == NULL) {
      free(name);
      free(space);
      return -1;
    }
    v->name = name != NULL ? name : strdup(text);
    v->space = space;
    *value = v;
  }
  return wrong;
}

int main(int argc, char** argv) {
  struct value* value = NULL;
  make(argv[0], argc > 2 ? &value : NULL, argv[1]);
  if (value != NULL) {
    free(value->name);
    free(value->space);
    free(value);
  }
  return 0;
}
