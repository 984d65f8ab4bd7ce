// `resize` frees the text and returns null, where it is asked to be gentle.
#include <stdio.h>
#include <stdlib.h>

static char* make(size_t size, int gently) {
  char* block = malloc(size + 1);
  if (!block) {
    if (!gently) exit(1);
    return NULL;
  }
  return block;
}

static char* resize(char* block, size_t size, int gently) {
  if (!size) {
    free(block);
    return make(0, gently);
  }
  block = realloc(block, size);
  if (!block) exit(1);
  return block;
}

char* grow(char* text, size_t size) {
  char* more = resize(text, size, 1);
  if (!more) free(text);
  return more;
}
