// Takes and touches all it can get from one reap, and from nothing else.
#include <string.h>

#include "strata/reap.h"

enum { size = 4096 };

int main(void) {
  strata_reap* reap = strata_reap_create(NULL);
  for (;;) memset(strata_reap_malloc(reap, size), 1, size);
}
