// The two functions that unbiased sampling needs and libc does not have without libm: the natural
// logarithm and 1 - exp(-x). Only samples pay for them. Sits in profile.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace strata {

namespace sample_math_internal {
inline constexpr double kLn2 = 0.69314718055994530942;

// 1 / k: a division would be most of what a term costs.
inline constexpr auto kInverse = [] {
  std::array<double, 20> inverse{};
  for (size_t k = 1; k < inverse.size(); ++k) inverse[k] = 1.0 / static_cast<double>(k);
  return inverse;
}();
}  // namespace sample_math_internal

// x > 0 and normal. Exact to 1e-14 or so: by ln x = 2 atanh((x - 1) / (x + 1)) on [0.7, 1.4].
inline double NaturalLog(double x) {
  const auto bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & ((uint64_t{1} << 52) - 1)) | (uint64_t{1023} << 52));
  if (m > 1.4142135623730951) {
    m /= 2;
    ++exponent;
  }
  const double z = (m - 1) / (m + 1);
  const double square = z * z;
  double sum = sample_math_internal::kInverse[19];
  for (size_t k = 19; k > 1;) sum = sum * square + sample_math_internal::kInverse[k -= 2];
  return 2 * z * sum + exponent * sample_math_internal::kLn2;
}

// 1 - exp(-x) for x >= 0, exact also where x is tiny: the chance that at least one sample falls
// where x of them are expected.
inline double ChanceOfSample(double x) {
  if (x > 40) return 1;
  if (x < 1e-4) return x - x * x / 2 + x * x * x / 6;
  // exp(-x) = 2^-k exp(-r) with r in [-ln 2 / 2, ln 2 / 2].
  const int k = static_cast<int>(x / sample_math_internal::kLn2 + 0.5);
  const double r = x - k * sample_math_internal::kLn2;
  double sum = 1;
  for (size_t i = 13; i >= 1; --i) sum = 1 - r * sample_math_internal::kInverse[i] * sum;
  return 1 - sum * std::bit_cast<double>(static_cast<uint64_t>(1023 - k) << 52);
}

}  // namespace strata
