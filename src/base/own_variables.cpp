// The variables of Strata's own. See own_variables.h.
#include "base/own_variables.h"

#include <string.h>
#include <sys/auxv.h>

#include <initializer_list>

namespace strata {

bool RunsForAnother() { return getauxval(AT_SECURE) != 0; }

void DropOwnVariables(char** environment) {
  if (environment == nullptr) return;
  char** kept = environment;
  for (; *environment != nullptr; ++environment) {
    bool ours = false;
    for (const char* prefix : {"STRATA_", "STRATATRACE_"})
      ours |= strncmp(*environment, prefix, strlen(prefix)) == 0;
    if (!ours) *kept++ = *environment;
  }
  *kept = nullptr;
}

}  // namespace strata
