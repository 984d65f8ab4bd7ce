// Right: what decides is a variable to which no pointer leads, though one that leads to hundreds of
// others is written through between.
#include <stdio.h>

#define TEN(m, n) m(n##0) m(n##1) m(n##2) m(n##3) m(n##4) m(n##5) m(n##6) m(n##7) m(n##8) m(n##9)
#define LOW(m, n) TEN(m, n##0) TEN(m, n##1) TEN(m, n##2) TEN(m, n##3) TEN(m, n##4)
#define HIGH(m, n) TEN(m, n##5) TEN(m, n##6) TEN(m, n##7) TEN(m, n##8) TEN(m, n##9)
#define HUNDRED(m, n) LOW(m, n) HIGH(m, n)
#define ALL(m) HUNDRED(m, 1) HUNDRED(m, 2) HUNDRED(m, 3) HUNDRED(m, 4) HUNDRED(m, 5) HUNDRED(m, 6)
#define DECLARE(n) static int number##n;
#define NAME(n) &number##n,
ALL(DECLARE)
static int* numbers[] = {ALL(NAME)};
static int keep;

static void put(int at, int n) { *numbers[at] = n; }

static int run(const char* name, int n) {
  FILE* f = NULL;
  if (keep) {
    f = fopen(name, "r");
    if (f == NULL) return 1;
  }
  put(n, n + 1);
  if (keep) fclose(f);
  return 0;
}

int main(int argc, char** argv) {
  keep = argc > 2;
  return run(argv[1], argc);
}
