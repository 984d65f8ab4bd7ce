// The file of a model: docs/model-format.md has its layout, strata/learn/model_file.py writes it.
// Open checks bytes that may be anybody's: bounds, version, checksum; what it lets through can be
// read without a further look. Copies nothing: the bytes must outlive it. Sits in lifetime.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata {

inline constexpr size_t kEmbedding = 32;
inline constexpr size_t kHidden = 64;
inline constexpr size_t kGates = 3 * kHidden;  // reset, update, new
inline constexpr size_t kLifetimeClasses = 8;
inline constexpr size_t kHeadColumns = 16;  // a vector's worth; the first classes count
inline constexpr size_t kCoarseSizes = 64;  // two a doubling
inline constexpr size_t kFineSizes = 192;   // eight a doubling
inline constexpr size_t kSizeRows = kCoarseSizes + kFineSizes;
inline constexpr size_t kClassNameBytes = 16;
inline constexpr size_t kBuildBytes = 64;

enum class ModelError : uint8_t { kNone, kTooShort, kNotAModel, kNewer, kDamaged };

// For a line on stderr, behind the file's name.
const char* TextOf(ModelError error);

// Weights as the file has them: [from][to], of floats, or of int8 with a scale for each `to`.
struct Matrix {
  const unsigned char* weights = nullptr;
  const unsigned char* scales = nullptr;  // null: they are floats
};

// The two rows of the embedding whose sum stands for a size.
struct SizeRows {
  uint32_t coarse, fine;
};

class ModelFile {
 public:
  ModelError Open(const void* bytes, size_t n);

  // Of the embedding; 0 if the token is unknown.
  uint32_t RowOfToken(uint64_t hash) const;
  SizeRows RowsOfSize(size_t bytes) const;
  // Adds a row of the embedding to kEmbedding floats.
  void AddEmbedding(uint32_t row, float* sum) const;

  bool is_int8() const { return is_int8_; }
  const Matrix& input() const { return input_; }
  const Matrix& hidden() const { return hidden_; }
  const Matrix& head() const { return head_; }
  const unsigned char* input_bias() const { return biases_; }
  const unsigned char* hidden_bias() const { return biases_ + kGates * sizeof(float); }
  const unsigned char* head_bias() const { return head_bias_; }

  // The programs it was trained on, as hexadecimal text that ends with zeros.
  size_t builds() const { return builds_n_; }
  const char* build(size_t i) const { return builds_ + i * kBuildBytes; }
  const char* class_name(size_t i) const { return class_names_ + i * kClassNameBytes; }

 private:
  ModelError CheckSections(const unsigned char* bytes, size_t n);

  const unsigned char* hashes_ = nullptr;
  const unsigned char* rows_ = nullptr;
  const unsigned char* biases_ = nullptr;
  const unsigned char* head_bias_ = nullptr;
  const char* builds_ = nullptr;
  const char* class_names_ = nullptr;
  Matrix embedding_, input_, hidden_, head_;
  size_t builds_n_ = 0;
  uint32_t rows_n_ = 0;
  uint32_t slots_ = 0;
  bool is_int8_ = false;
};

}  // namespace strata
