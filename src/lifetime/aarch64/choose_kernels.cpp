// The kernels of aarch64: NEON, which every processor of that kind has. Sits in lifetime.
#include "lifetime/kernels.h"

namespace strata {
namespace {
constexpr const Kernels* kAll[] = {&kBaselineKernels};
}

std::span<const Kernels* const> AllKernels() { return kAll; }
bool CanRun(const Kernels&) { return true; }
const Kernels& ChooseKernels() { return kBaselineKernels; }

}  // namespace strata
