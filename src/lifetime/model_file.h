// The file of a model. strata/learn/model_file.py writes it. Open checks bytes that may be
// anybody's: bounds, version, checksum; what it lets through can be read without a further look.
// Copies nothing: the bytes must outlive it. Sits in lifetime.
//
// The layout. Numbers are little endian, floats IEEE 754 single precision. Sections, and the file,
// end at multiples of 64 bytes. The header:
//   0   STRATALM
//   8   u32 version: 4
//   12  u32 bytes of the header with the table of sections: 352
//   16  u64 bytes of the file
//   24  u64 checksum: FNV-1a of the whole file, with these eight bytes taken for zeros
//   32  u32 flags. Bit 0: weights are int8; the others are 0
//   36  u32 rows of the embedding
//   40  u32 slots of the table of tokens, a power of two
//   44  five u32 that version 4 fixes: embedding 32, hidden state 64, classes 8, rows for
//       sizes 256, sections 18
//   64  for each section its offset and its bytes, u64 each
// A reader refuses, in this order: another magic, a file shorter than the header says, another
// version, anything else that does not hold. The sections:
//   hashes, rows   the vocabulary, an open-addressed table: a token's place is its hash modulo the
//                  slots, then the next one on; hash 0 is free. rows has the row of the embedding
//                  (u32) for each slot. At most 4,096 words, and with places 4,608 tokens
//   embedding      rows of 32. Row 0 is of all unknown words; the last 256 are of sizes: 64 coarse
//                  ones, 192 fine ones
//   input, hidden, head   matrices of the GRU (32 x 192, 64 x 192) and the head (64 x 16), a row
//                  for each number that goes in. Columns of the GRU are the reset, update and new
//                  gates, 64 each; the head's first 8 say the class, the others how an object ends
//   biases         192 of the input, 192 of the hidden state
//   head bias      16
//   class names    8 of 16 bytes, ended by zeros
//   known, shares, known classes   what was recorded of stacks, at most 3,584: a u64 that stands
//                  for a stack and a size, in rising order; 8 bytes, how many of 255 of its objects
//                  die in each class, by what was recorded and, where that is little, by the
//                  network; a byte, the class within which 95 % did
//   builds         at most 256 build ids of programs it was trained on, 64 bytes each, ended
//                  by zeros
//   about          JSON for people, of at most 16 KiB if strata train wrote it
// Behind the embedding and each matrix stands a section of scales, empty in a file of floats. An
// int8 weight times its scale is the weight: the embedding has a scale for each row, a matrix one
// for each column.
//
// The prediction is a class, and how many of the objects die in each. Of a known stack it is what
// the table says, else the network's. The number of a stack: from v =
// 0xCBF29CE484222325 on, v = (v ^ x) * 0x100000001B3 modulo 2^64, where x is the FNV-1a of each
// frame's name with its place (0 counts as 1), from the innermost on, of 64 at most, and last the
// size. A stack without frames has none. In the network a frame is the sum of the embedding's rows
// of its words (tokens.h), or row 0 if it has none, and of its place's row if the model has one.
// The GRU starts from zeros and takes the frames from main inward, the innermost 64 at most, then
// the size, which is the sum of two rows. With i the input times its matrix plus its bias, and h'
// the state times its matrix plus its bias:
//   reset  = sigmoid(i.reset + h'.reset)
//   update = sigmoid(i.update + h'.update)
//   new    = tanh(i.new + reset * h'.new)
//   h      = (1 - update) * new + update * h
// The softmax of the head's first half are the odds of the class, that of the other half are the
// shares of the objects. The size is that of the size class; p is the
// position of its highest bit. Its coarse row, counted from the first for sizes, is 0 below 2, else
// 2p plus the bit below the highest, and 63 at most. Its fine row, counted from the 64 behind, is
// the size itself below 8, else 8(p - 2) plus the three bits below the highest, and 191 at most.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata {

inline constexpr size_t kEmbedding = 32;
inline constexpr size_t kHidden = 64;
inline constexpr size_t kGates = 3 * kHidden;  // reset, update, new
inline constexpr size_t kLifetimeClasses = 8;
inline constexpr size_t kHeadColumns = 2 * kLifetimeClasses;
inline constexpr size_t kCoarseSizes = 64;  // two a doubling
inline constexpr size_t kFineSizes = 192;   // eight a doubling
inline constexpr size_t kSizeRows = kCoarseSizes + kFineSizes;
inline constexpr size_t kClassNameBytes = 16;
inline constexpr size_t kBuildBytes = 64;
inline constexpr size_t kMostKnown = 3584;
inline constexpr uint32_t kAllShares = 255;  // that those of a known stack add up to

enum class ModelError : uint8_t { kNone, kTooShort, kNotAModel, kOtherVersion, kDamaged };

inline constexpr uint32_t kModelVersion = 4;

// For a line on stderr, behind the file's name.
const char* TextOf(ModelError error);

// That of a file which Open says is of another one.
uint32_t ModelVersionOf(const void* data);

// Weights as the file has them: [from][to], of floats, or of int8 with a scale for each `to`.
struct Matrix {
  const unsigned char* weights = nullptr;
  const unsigned char* scales = nullptr;  // null: they are floats
};

// The two rows of the embedding whose sum stands for a size.
struct SizeRows {
  uint32_t coarse, fine;
};

// What was recorded of a stack and a size.
struct KnownStack {
  const unsigned char* shares =
      nullptr;            // of kAllShares, for each class; null: the stack is not known
  uint8_t likeliest = 0;  // counted from 1
};

class ModelFile {
 public:
  ModelError Open(const void* bytes, size_t n);

  // Of the embedding; 0 if the token is unknown.
  uint32_t RowOfToken(uint64_t hash) const;
  SizeRows RowsOfSize(size_t bytes) const;
  // Adds a row of the embedding to kEmbedding floats.
  void AddEmbedding(uint32_t row, float* sum) const;

  bool knows_stacks() const { return known_n_ != 0; }
  KnownStack FindStack(uint64_t hash) const;

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
  uint64_t known(size_t i) const;
  bool AllTextEnds() const;
  bool KnowsSoundly() const;

  const unsigned char* hashes_ = nullptr;
  const unsigned char* rows_ = nullptr;
  const unsigned char* biases_ = nullptr;
  const unsigned char* head_bias_ = nullptr;
  const unsigned char* known_ = nullptr;
  const unsigned char* shares_ = nullptr;
  const unsigned char* known_classes_ = nullptr;
  const char* builds_ = nullptr;
  const char* class_names_ = nullptr;
  Matrix embedding_, input_, hidden_, head_;
  size_t builds_n_ = 0;
  size_t known_n_ = 0;
  uint32_t rows_n_ = 0;
  uint32_t slots_ = 0;
  bool is_int8_ = false;
};

}  // namespace strata
