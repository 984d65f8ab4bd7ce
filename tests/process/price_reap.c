// Takes and touches all it can get from one reap, and from nothing else; argv[1]: a shared one.
#include <string.h>

#include "strata/reap.h"

enum { size = 4096 };

int main(int argc, char** argv) {
  (void)argv;
  strata_reap* reap = argc > 1 ? strata_reap_create_shared(NULL) : strata_reap_create(NULL);
  for (;;) memset(strata_reap_malloc(reap, size), 1, size);
}
