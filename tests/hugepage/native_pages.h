// A range of native pages in the form in which the span layer reports them, for tests.
#pragma once

#include <algorithm>
#include <vector>

#include "hugepage/page_run.h"
#include "os/page_kernel.h"

namespace strata::test {

inline std::vector<NativePages> AsPages(NativeRange r) {
  std::vector<NativePages> out;
  for (size_t at = 0; at < r.bytes >> kNativePageShift; at += 64) {
    const size_t n = std::min<size_t>((r.bytes >> kNativePageShift) - at, 64);
    out.push_back({r.offset + (at << kNativePageShift), ~uint64_t{0} >> (64 - n)});
  }
  return out;
}

}  // namespace strata::test
