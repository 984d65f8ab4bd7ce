// How often tests of every structure repeat what they do.
#pragma once

namespace crest {

// How much to do: all is many times slower under a sanitizer.
#ifdef STRATA_SANITIZED
inline constexpr int kEffort = 1;
#else
inline constexpr int kEffort = 5;
#endif

}  // namespace crest
