/* Linked with libstrata in several ways by test_install.py: malloc, and strdup from inside libc,
   must both reach Strata. */
#include "probe.h"

enum { kBytes = 3 << 20 };

int main(void) {
  if (strcmp(strata_version(), VERSION) != 0) return Fail("strata_version");
  long long before = LiveBytes();
  char* block = malloc(kBytes);
  memset(block, 'x', kBytes - 1);
  block[kBytes - 1] = '\0';
  long long with_block = LiveBytes();
  if (before < 0 || with_block - before < kBytes) return Fail("malloc is not Strata's");
  char* copy = strdup(block);
  if (LiveBytes() - with_block < kBytes) return Fail("libc's own malloc calls are not Strata's");
  free(copy);
  free(block);
  if (LiveBytes() > before + kBytes / 2) return Fail("free is not Strata's");
  puts("strata");
  return 0;
}
