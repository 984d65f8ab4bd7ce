// The arithmetic of a model, once for each kind of processor; which one is found out once, by
// ChooseKernels. All work on unaligned memory, since the weights lie where a file has them, and on
// columns in multiples of kHeadColumns. Sits in lifetime.
#pragma once

#include <cstddef>
#include <span>

namespace strata {

// In which rows are gone through. A matrix that is larger than the first-level cache, and is used
// again and again, is half there still if every other time begins where the last one ended.
enum class RowOrder : bool { kFromFirst, kFromLast };

struct Kernels {
  const char* name;
  // y[0..columns) += x * the matrix [rows][columns] of floats.
  void (*add_product)(const unsigned char* weights, const float* x, size_t rows, size_t columns,
                      RowOrder order, float* y);
  // The same of int8 with a scale for each column.
  void (*add_product8)(const unsigned char* weights, const unsigned char* scales, const float* x,
                       size_t rows, size_t columns, RowOrder order, float* y);
  // One step of a GRU(kHidden): `row` of what comes in, `recurrent` of the state before.
  void (*gates)(const float* row, const float* recurrent, float* state);
  // exp of kHeadColumns numbers, which are at most 0.
  void (*exponentials)(float* x);
};

extern const Kernels kBaselineKernels;

// All that the architecture has, the widest first; the last is kBaselineKernels.
std::span<const Kernels* const> AllKernels();
// Whether this processor, and the kernel for its registers, has what they need.
bool CanRun(const Kernels& kernels);
const Kernels& ChooseKernels();

}  // namespace strata
