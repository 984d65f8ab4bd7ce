// Whether the kernel's free hugepage frames are cold: a hypervisor took the memory behind them back
// (free page reporting, ballooning), and whoever touches one first waits for it, 3 to 7 ms where a
// warm one takes 0.1. Where they are cold the filler's fresh hugepages begin as single pages, of
// which the kernel has warm ones far longer, and are rebuilt when three quarters of one are in use;
// and a rebuild, during which the program's page faults wait, gets a frame that was touched ahead.
// Told by first touches alone, which wait for nothing else: a rebuild also waits for all CPUs. A
// pure class, in hugepage.
#pragma once

#include <cstdint>

namespace strata {

class ColdFrames {
 public:
  bool likely(uint32_t now_s) const { return now_s < until_s_; }

  // What the first touch of a hugepage took.
  void NoteTouch(uint64_t ns, uint32_t now_s) { until_s_ = ns > kSlowNs ? now_s + kKnownS : 0; }

 private:
  static constexpr uint64_t kSlowNs = 1'000'000;  // ten times a warm one
  static constexpr uint32_t kKnownS = 60;

  uint32_t until_s_ = 0;
};

}  // namespace strata
