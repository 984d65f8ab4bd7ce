// The two functions that unbiased sampling needs and libc does not have without libm: the natural
// logarithm and 1 - exp(-x). Only samples pay for them. Sits in profile.
#pragma once

#include <bit>
#include <cstdint>

namespace strata {

namespace sample_math_internal {
inline constexpr double kLn2 = 0.69314718055994530942;
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
  double sum = 0;
  for (int k = 19; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  return 2 * z * sum + exponent * sample_math_internal::kLn2;
}

// 1 - exp(-x) for x >= 0, exact also where x is tiny: the chance that at least one sample falls
// where x of them are expected.
inline double ChanceOfSample(double x) {
  if (x > 40) return 1;
  if (x < 1e-4) return x - x * x / 2 + x * x * x / 6;
  // exp(-x) = 2^-k exp(-r) with r in [0, ln 2).
  const int k = static_cast<int>(x / sample_math_internal::kLn2);
  const double r = x - k * sample_math_internal::kLn2;
  double sum = 1;
  for (int i = 18; i >= 1; --i) sum = 1 - r / i * sum;
  return 1 - sum * std::bit_cast<double>(static_cast<uint64_t>(1023 - k) << 52);
}

}  // namespace strata
