// The archive's answer, and that of a library without watched_calls.cpp. See watched_calls.h.
#include "malloc/watched_calls.h"

namespace strata {

__attribute__((weak)) void FindWhetherCallsPass() {}
__attribute__((weak)) bool SeesWhatTheProgramGivesUp() { return false; }
__attribute__((weak)) void PrepareWatchedCalls() {}

}  // namespace strata
