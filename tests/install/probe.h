/* The proof that the malloc which this program runs on is Strata's: what it allocates shows up in
   strata_stats_json's live bytes. Included by the C and the C++ program of the install test. */
#include <stdio.h>
#include <stdlib.h>
#include <strata/strata.h>
#include <string.h>

static long long LiveBytes(void) {
  static char json[1 << 20];
  size_t length = strata_stats_json(json, sizeof json);
  if (length == 0 || length >= sizeof json) return -1;
  const char* live = strstr(json, "\"live\":");
  return live == NULL ? -1 : strtoll(live + strlen("\"live\":"), NULL, 10);
}

static int Fail(const char* what) {
  fprintf(stderr, "FAILED: %s\n", what);
  return 1;
}
