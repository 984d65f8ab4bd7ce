// The kernels for SSE2 or NEON, which every x86-64 and aarch64 has: CMakeLists.txt gives this file
// its flags. Sits in lifetime.
#include "lifetime/vector_kernels.h"

namespace strata {

constinit const Kernels kBaselineKernels = VectorKernels::Named("baseline");

}  // namespace strata
