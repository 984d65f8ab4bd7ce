// The kernels for AVX-512: CMakeLists.txt gives this file its flags. Sits in lifetime.
#include "lifetime/vector_kernels.h"

namespace strata {

extern constinit const Kernels kAvx512Kernels = VectorKernels::Named("avx512");

}  // namespace strata
