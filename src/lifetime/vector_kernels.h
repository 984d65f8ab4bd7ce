// The kernels, for the widest vectors that the compiler's flags allow. Each of kernels_*.cpp makes
// them under flags of its own, so everything here is in an unnamed namespace, where no other file
// can pick it up. exp after W. Cody and W. Waite, "Software Manual for the Elementary Functions",
// 1980: 2^n times a polynomial. Never -ffast-math: it undoes the rounding. Sits in lifetime.
#pragma once

#ifdef __aarch64__
#include <arm_neon.h>
#else
#include <immintrin.h>
#endif

#include <cstdint>
#include <cstring>

#include "lifetime/kernels.h"
#include "lifetime/model_file.h"

namespace strata {
namespace {  // NOLINT: see above

#if defined(__AVX512F__)
constexpr size_t kLanes = 16;
#elif defined(__AVX2__)
constexpr size_t kLanes = 8;
#else
constexpr size_t kLanes = 4;
#endif

struct VectorKernels {
  typedef float Floats __attribute__((vector_size(kLanes * sizeof(float))));
  typedef int32_t Ints __attribute__((vector_size(kLanes * sizeof(int32_t))));
  static_assert(kHeadColumns % kLanes == 0);

  template <typename V>
  static V Load(const void* at) {
    V v;
    memcpy(&v, at, sizeof(v));
    return v;
  }
  static void Store(float* at, Floats v) { memcpy(at, &v, sizeof(v)); }
  // No sum, which would make 0 of -0, and take an instruction for it.
  static Floats Splat(float x) { return x - Floats{}; }

  static Floats Exp(Floats x) {
    x = x < -87.0F ? Splat(-87.0F) : x;
    x = x > 87.0F ? Splat(87.0F) : x;
    constexpr float kRounds = 12582912.0F;  // 1.5 * 2^23: adding it leaves a whole number below
    const Floats shifted = x * 1.44269504F + kRounds;
    const Floats n = shifted - kRounds;
    const Floats r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
    Floats p = r * (1.0F / 720) + 1.0F / 120;
    p = p * r + 1.0F / 24;
    p = p * r + 1.0F / 6;
    p = p * r + 0.5F;
    p = p * r + 1.0F;
    p = p * r + 1.0F;
    const Ints bits = Load<Ints>(&shifted) - 0x4B400000 + 127;
    const Ints power = bits << 23;
    return p * Load<Floats>(&power);
  }
  static Floats Sigmoid(Floats x) { return 1.0F / (1.0F + Exp(-x)); }
  static Floats Tanh(Floats x) { return 1.0F - 2.0F / (Exp(x + x) + 1.0F); }

  static Floats Weights(const float*, const unsigned char* at) { return Load<Floats>(at); }
  static Floats Weights(const int8_t*, const unsigned char* at) {
    // Not __builtin_convertvector, which gcc 12 does a lane at a time.
#if defined(__AVX512F__)
    // Masks of all lanes: the plain ones make gcc 12 warn of its own header.
    const __m512i wide = _mm512_maskz_cvtepi8_epi32(0xFFFF, Load<__m128i>(at));
    return _mm512_maskz_cvtepi32_ps(0xFFFF, wide);
#elif defined(__AVX2__)
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_cvtsi64_si128(Load<int64_t>(at))));
#elif defined(__aarch64__)
    const int8x8_t bytes = vreinterpret_s8_s32(vdup_n_s32(Load<int32_t>(at)));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(bytes))));
#else
    const __m128i bytes = _mm_cvtsi32_si128(Load<int32_t>(at));
    const __m128i twice = _mm_unpacklo_epi8(bytes, bytes);  // each in the high byte of its lane
    return _mm_cvtepi32_ps(_mm_srai_epi32(_mm_unpacklo_epi16(twice, twice), 24));
#endif
  }

  // Sums of kVectors * kLanes columns stay in registers over all rows. (gcc 12 takes an array that
  // it may index through memory, hence the unrolling.)
  template <typename Weight, size_t kVectors>
  static void Columns(const unsigned char* weights, const unsigned char* scales, const float* x,
                      size_t rows, size_t columns, RowOrder order, float* y) {
    Floats sum[kVectors] = {};
    const auto width = static_cast<ptrdiff_t>(columns * sizeof(Weight));
    const bool ascends = order == RowOrder::kFromFirst;
    const ptrdiff_t by = ascends ? 1 : -1;
    auto row = static_cast<ptrdiff_t>(ascends ? 0 : rows - 1);
    for (size_t left = rows; left > 0; --left, row += by) {
      const unsigned char* from = weights + row * width;
      const Floats factor = Splat(x[row]);
#pragma GCC unroll 12
      for (size_t v = 0; v < kVectors; ++v) {
        const Weight* kind = nullptr;
        sum[v] += factor * Weights(kind, from + v * kLanes * sizeof(Weight));
      }
    }
#pragma GCC unroll 12
    for (size_t v = 0; v < kVectors; ++v) {
      if (scales != nullptr) sum[v] *= Load<Floats>(scales + v * kLanes * sizeof(float));
      Store(y + v * kLanes, Load<Floats>(y + v * kLanes) + sum[v]);
    }
  }

  // Backwards in both ways: what the last time read at its end is read first.
  template <typename Weight, size_t kVectors>
  static void AllColumns(const unsigned char* weights, const unsigned char* scales, const float* x,
                         size_t rows, size_t columns, RowOrder order, float* y) {
    constexpr size_t kStep = kVectors * kLanes;
    for (size_t done = 0; done < columns; done += kStep) {
      const size_t column = order == RowOrder::kFromFirst ? done : columns - kStep - done;
      const unsigned char* scale = scales == nullptr ? nullptr : scales + column * sizeof(float);
      Columns<Weight, kVectors>(weights + column * sizeof(Weight), scale, x, rows, columns, order,
                                y + column);
    }
  }

  template <typename Weight>
  static void Product(const unsigned char* weights, const unsigned char* scales, const float* x,
                      size_t rows, size_t columns, RowOrder order, float* y) {
    constexpr size_t kWide = 12;  // of the 16 registers that all have
    constexpr size_t kNarrow = kHeadColumns / kLanes;
    if (columns % (kWide * kLanes) == 0) {
      AllColumns<Weight, kWide>(weights, scales, x, rows, columns, order, y);
    } else {
      AllColumns<Weight, kNarrow>(weights, scales, x, rows, columns, order, y);
    }
  }

  static void AddProduct(const unsigned char* weights, const float* x, size_t rows, size_t columns,
                         RowOrder order, float* y) {
    Product<float>(weights, nullptr, x, rows, columns, order, y);
  }

  static void Gates(const float* row, const float* recurrent, float* state) {
    for (size_t i = 0; i < kHidden; i += kLanes) {
      const auto in = [&](size_t gate) { return Load<Floats>(row + gate * kHidden + i); };
      const auto back = [&](size_t gate) { return Load<Floats>(recurrent + gate * kHidden + i); };
      const Floats reset = Sigmoid(in(0) + back(0));
      const Floats update = Sigmoid(in(1) + back(1));
      const Floats fresh = Tanh(in(2) + reset * back(2));
      Store(state + i, fresh + update * (Load<Floats>(state + i) - fresh));
    }
  }

  static void Exponentials(float* x) {
    for (size_t i = 0; i < kHeadColumns; i += kLanes) Store(x + i, Exp(Load<Floats>(x + i)));
  }

  static constexpr Kernels Named(const char* name) {
    return {name, AddProduct, Product<int8_t>, Gates, Exponentials};
  }
};

}  // namespace
}  // namespace strata
