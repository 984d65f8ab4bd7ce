// The number that comes back by longjmp is the one with which the text was freed.
#include <setjmp.h>
#include <stdlib.h>

enum reason { kBad = 1, kGone };
static jmp_buf back;
static char* text;

static void fail(int why) {
  if (why == kGone) free(text);
  longjmp(back, why);
}

int main(int argc, char** argv) {
  text = malloc(8);
  if (!text) return 1;
  switch (setjmp(back)) {
    case 0:
      break;
    case kBad:
      return 1;
    default:
      free(text);
      return 2;
  }
  if (argc > 3) fail(kBad);
  if (argc > 2) fail(kGone);
  free(text);
}
