// The kernels for SSE2, which every x86-64 has: CMakeLists.txt gives this file its flags. Sits in
// lifetime.
#include "lifetime/vector_kernels.h"

namespace strata {

constinit const Kernels kBaselineKernels = VectorKernels::Named("baseline");

}  // namespace strata
