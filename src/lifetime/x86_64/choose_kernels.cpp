// Finds out which kernels the processor can run: x86-64. Sits in lifetime.
#include "lifetime/kernels.h"

namespace strata {

extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;

namespace {
constexpr const Kernels* kAll[] = {&kAvx512Kernels, &kAvx2Kernels, &kBaselineKernels};
}

std::span<const Kernels* const> AllKernels() { return kAll; }

bool CanRun(const Kernels& kernels) {
  __builtin_cpu_init();
  if (&kernels == &kAvx2Kernels) {
    return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  }
  if (&kernels == &kAvx512Kernels) {
    return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
           __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
           __builtin_cpu_supports("fma") != 0;
  }
  return true;
}

const Kernels& ChooseKernels() {
  for (const Kernels* kernels : kAll) {
    if (CanRun(*kernels)) return *kernels;
  }
  return kBaselineKernels;
}

}  // namespace strata
