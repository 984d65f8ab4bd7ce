// Finds out which kernels the processor can run: x86-64. Sits in lifetime.
#include <cpuid.h>

#include <cstdint>

#include "lifetime/kernels.h"

namespace strata {

extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;

namespace {
constexpr const Kernels* kAll[] = {&kAvx512Kernels, &kAvx2Kernels, &kBaselineKernels};

struct VectorUnits {
  bool avx2 = false;
  bool avx512 = false;
};

// Which register sets the kernel saves (XCR0).
uint32_t SavedState() {
  uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

// __builtin_cpu_supports would link a constructor of libgcc's, which asks about everything that the
// compiler knows, with 5 KiB of code in every process.
VectorUnits FindVectorUnits() {
  constexpr uint32_t kYmm = 0x06, kZmm = 0xe6;
  constexpr uint32_t kAvx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
  uint32_t a, b, c, d;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return {};
  if ((c & bit_OSXSAVE) == 0 || (c & bit_FMA) == 0) return {};
  const uint32_t saved = SavedState();
  if ((saved & kYmm) != kYmm || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return {};
  return {(b & bit_AVX2) != 0, (saved & kZmm) == kZmm && (b & kAvx512) == kAvx512};
}

}  // namespace

std::span<const Kernels* const> AllKernels() { return kAll; }

bool CanRun(const Kernels& kernels) {
  if (&kernels == &kBaselineKernels) return true;
  const VectorUnits units = FindVectorUnits();
  return &kernels == &kAvx512Kernels ? units.avx512 : units.avx2;
}

const Kernels& ChooseKernels() {
  for (const Kernels* kernels : kAll) {
    if (CanRun(*kernels)) return *kernels;
  }
  return kBaselineKernels;
}

}  // namespace strata
