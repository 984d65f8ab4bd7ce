// Finds out which kernels the processor can run. Sits in lifetime.
#include "lifetime/kernels.h"

#include <initializer_list>

namespace strata {

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
  for (const Kernels* kernels : {&kAvx512Kernels, &kAvx2Kernels}) {
    if (CanRun(*kernels)) return *kernels;
  }
  return kBaselineKernels;
}

}  // namespace strata
