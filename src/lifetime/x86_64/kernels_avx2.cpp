// The kernels for AVX2 with FMA: CMakeLists.txt gives this file its flags. Sits in lifetime.
#include "lifetime/vector_kernels.h"

namespace strata {

extern constinit const Kernels kAvx2Kernels = VectorKernels::Named("avx2");

}  // namespace strata
