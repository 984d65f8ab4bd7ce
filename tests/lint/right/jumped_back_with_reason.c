// Right: the number that comes back by longjmp, or a variable, says what was freed before.
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

enum reason { kBad = 1, kGone };
static jmp_buf by_number, by_variable;
static char *text, *line;
static int freed;

static void fail(int why) {
  if (why == kGone) free(text);
  longjmp(by_number, why);
}

static int number(int n) {
  text = malloc(8);
  if (!text) return 1;
  switch (setjmp(by_number)) {
    case 0:
      break;
    case kGone:
      return 1;
    default:
      free(text);
      return 2;
  }
  if (n > 3) fail(kBad);
  if (n > 2) fail(kGone);
  free(text);
  return 0;
}

static void give_up(void) {
  free(line);
  freed = 1;
  longjmp(by_variable, 1);
}

static int variable(int n) {
  line = malloc(8);
  if (!line) return 1;
  freed = 0;
  if (setjmp(by_variable) == 0 && n > 2) give_up();
  if (!freed) free(line);
  return 0;
}

int main(int argc, char** argv) { return number(argc) + variable(argc); }
