// Right: the text is freed again only if what jumped back has written that there is none.
#include <setjmp.h>
#include <stdlib.h>

struct slot {
  char* text;
};
static jmp_buf back;
static struct slot* now;

static void fail(int why) {
  now->text = NULL;
  longjmp(back, why);
}

static int work(int n) {
  if (setjmp(back) != 0) return -1;
  if (n > 1) fail(n);
  return 0;
}

int ask(int n) {
  struct slot s;
  s.text = malloc(8);
  if (s.text == NULL) return 1;
  now = &s;
  free(s.text);
  if (work(n) < 0) free(s.text);
  return 0;
}
