// Checks the bytes of a model, section by section, before anything is read. Sits in lifetime.
#include "lifetime/model_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

namespace strata {
namespace {

constexpr char kMagic[8] = {'S', 'T', 'R', 'A', 'T', 'A', 'L', 'M'};
constexpr uint32_t kInt8 = 1;
constexpr uint32_t kMostRows = 1 << 16;
constexpr size_t kAlignment = 64;
constexpr size_t kChecksumAt = 24;

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t header_bytes;
  uint64_t file_bytes;
  uint64_t checksum;
  uint32_t flags, rows, slots, embedding, hidden, classes, sizes, sections;
};
static_assert(sizeof(Header) == 64);

struct Section {
  uint64_t offset, bytes;
};

enum SectionName : uint8_t {
  kHashes,
  kRows,
  kEmbeddings,
  kEmbeddingScales,
  kInput,
  kInputScales,
  kHiddens,
  kHiddenScales,
  kBiases,
  kHead,
  kHeadScales,
  kHeadBias,
  kClassNames,
  kKnown,
  kKnownShares,
  kKnownClasses,
  kBuilds,
  kAbout,
  kSections
};

constexpr size_t kHeaderBytes = sizeof(Header) + kSections * sizeof(Section);

template <typename T>
T Load(const unsigned char* at) {
  T value;
  memcpy(&value, at, sizeof(value));
  return value;
}

Section SectionAt(const unsigned char* bytes, size_t i) {
  return Load<Section>(bytes + sizeof(Header) + i * sizeof(Section));
}

// FNV-1a of all bytes, those of the checksum taken for zeros.
uint64_t Checksum(const unsigned char* bytes, size_t n) {
  uint64_t value = 0xCBF29CE484222325;
  for (size_t i = 0; i < n; ++i) {
    const bool is_own = i - kChecksumAt < sizeof(uint64_t);
    value = (value ^ (is_own ? 0 : bytes[i])) * 0x100000001B3;
  }
  return value;
}

bool HasOurShape(const Header& h) {
  return h.header_bytes == kHeaderBytes && h.embedding == kEmbedding && h.hidden == kHidden &&
         h.classes == kLifetimeClasses && h.sizes == kSizeRows && h.sections == kSections &&
         h.rows > kSizeRows && h.rows <= kMostRows && std::has_single_bit(h.slots) &&
         h.slots <= 4 * kMostRows && (h.flags & ~kInt8) == 0;
}

}  // namespace

const char* TextOf(ModelError error) {
  switch (error) {
    case ModelError::kNone:
      return "a model";
    case ModelError::kTooShort:
      return "too short for a model";
    case ModelError::kNotAModel:
      return "not a model of strata train";
    case ModelError::kOtherVersion:
      return "of another version of strata train";
    case ModelError::kDamaged:
      return "damaged";
  }
  return "damaged";
}

uint32_t ModelVersionOf(const void* data) {
  return Load<Header>(static_cast<const unsigned char*>(data)).version;
}

ModelError ModelFile::Open(const void* data, size_t n) {
  *this = {};
  const auto* bytes = static_cast<const unsigned char*>(data);
  if (n >= sizeof(kMagic) && memcmp(bytes, kMagic, sizeof(kMagic)) != 0) {
    return ModelError::kNotAModel;
  }
  if (n < kHeaderBytes) return ModelError::kTooShort;
  const auto header = Load<Header>(bytes);
  if (header.version != kModelVersion) return ModelError::kOtherVersion;
  if (header.file_bytes > n) return ModelError::kTooShort;
  if (header.file_bytes != n || !HasOurShape(header) || Checksum(bytes, n) != header.checksum) {
    return ModelError::kDamaged;
  }
  rows_n_ = header.rows;
  slots_ = header.slots;
  is_int8_ = (header.flags & kInt8) != 0;
  const ModelError error = CheckSections(bytes, n);
  if (error != ModelError::kNone) *this = {};
  return error;
}

ModelError ModelFile::CheckSections(const unsigned char* bytes, size_t n) {
  known_n_ = SectionAt(bytes, kKnown).bytes / sizeof(uint64_t);
  if (known_n_ > kMostKnown) return ModelError::kDamaged;
  const size_t width = is_int8_ ? 1 : sizeof(float);
  const size_t scale = is_int8_ ? sizeof(float) : 0;
  const uint64_t wanted[kSections] = {slots_ * sizeof(uint64_t),
                                      slots_ * sizeof(uint32_t),
                                      rows_n_ * kEmbedding * width,
                                      rows_n_ * scale,
                                      kEmbedding * kGates * width,
                                      kGates * scale,
                                      kHidden * kGates * width,
                                      kGates * scale,
                                      2 * kGates * sizeof(float),
                                      kHidden * kHeadColumns * width,
                                      kHeadColumns * scale,
                                      kHeadColumns * sizeof(float),
                                      kLifetimeClasses * kClassNameBytes,
                                      known_n_ * sizeof(uint64_t),
                                      known_n_ * kLifetimeClasses,
                                      known_n_};
  const unsigned char* at[kSections];
  uint64_t size[kSections];
  for (size_t i = 0; i < kSections; ++i) {
    const Section section = SectionAt(bytes, i);
    if (section.offset % kAlignment != 0 || section.offset > n ||
        section.bytes > n - section.offset || (i < kBuilds && section.bytes != wanted[i])) {
      return ModelError::kDamaged;
    }
    at[i] = bytes + section.offset;
    size[i] = section.bytes;
  }
  hashes_ = at[kHashes];
  rows_ = at[kRows];
  const auto matrix = [&](SectionName weights) {
    return Matrix{at[weights], is_int8_ ? at[weights + 1] : nullptr};
  };
  embedding_ = matrix(kEmbeddings);
  input_ = matrix(kInput);
  hidden_ = matrix(kHiddens);
  head_ = matrix(kHead);
  biases_ = at[kBiases];
  head_bias_ = at[kHeadBias];
  known_ = at[kKnown];
  shares_ = at[kKnownShares];
  known_classes_ = at[kKnownClasses];
  class_names_ = reinterpret_cast<const char*>(at[kClassNames]);
  builds_ = reinterpret_cast<const char*>(at[kBuilds]);
  builds_n_ = size[kBuilds] / kBuildBytes;
  return AllTextEnds() && KnowsSoundly() ? ModelError::kNone : ModelError::kDamaged;
}

bool ModelFile::AllTextEnds() const {
  for (size_t i = 0; i < builds_n_ + kLifetimeClasses; ++i) {
    const bool is_build = i < builds_n_;
    const char* text = is_build ? build(i) : class_name(i - builds_n_);
    if (text[(is_build ? kBuildBytes : kClassNameBytes) - 1] != '\0') return false;
  }
  return true;
}

uint64_t ModelFile::known(size_t i) const { return Load<uint64_t>(known_ + i * sizeof(uint64_t)); }

bool ModelFile::KnowsSoundly() const {
  for (size_t i = 0; i < known_n_; ++i) {
    if (i > 0 && known(i - 1) >= known(i)) return false;
    if (known_classes_[i] == 0 || known_classes_[i] > kLifetimeClasses) return false;
    const unsigned char* shares = shares_ + i * kLifetimeClasses;
    if (std::accumulate(shares, shares + kLifetimeClasses, 0u) != kAllShares) return false;
  }
  return true;
}

KnownStack ModelFile::FindStack(uint64_t hash) const {
  size_t first = 0;
  for (size_t end = known_n_; first < end;) {
    const size_t middle = first + (end - first) / 2;
    if (known(middle) < hash) {
      first = middle + 1;
    } else {
      end = middle;
    }
  }
  if (first == known_n_ || known(first) != hash) return {};
  return {shares_ + first * kLifetimeClasses, known_classes_[first]};
}

uint32_t ModelFile::RowOfToken(uint64_t hash) const {
  const uint32_t mask = slots_ - 1;
  uint32_t slot = static_cast<uint32_t>(hash) & mask;
  for (uint32_t looked = 0; looked < slots_; ++looked, slot = (slot + 1) & mask) {
    const auto key = Load<uint64_t>(hashes_ + slot * sizeof(uint64_t));
    if (key == 0) return 0;
    if (key != hash) continue;
    const auto row = Load<uint32_t>(rows_ + slot * sizeof(uint32_t));
    return row < rows_n_ - kSizeRows ? row : 0;
  }
  return 0;
}

SizeRows ModelFile::RowsOfSize(size_t bytes) const {
  const size_t power = bytes == 0 ? 0 : static_cast<size_t>(std::bit_width(bytes)) - 1;
  const size_t coarse = power == 0 ? 0 : 2 * power + (bytes >> (power - 1) & 1);
  const size_t fine = power < 3 ? bytes : 8 * (power - 2) + (bytes >> (power - 3) & 7);
  const size_t first = rows_n_ - kSizeRows;
  return {static_cast<uint32_t>(first + std::min(coarse, kCoarseSizes - 1)),
          static_cast<uint32_t>(first + kCoarseSizes + std::min(fine, kFineSizes - 1))};
}

void ModelFile::AddEmbedding(uint32_t row, float* sum) const {
  const size_t begin = size_t{row} * kEmbedding;
  const bool is_int8 = embedding_.scales != nullptr;
  const float scale = is_int8 ? Load<float>(embedding_.scales + row * sizeof(float)) : 1;
  for (size_t i = 0; i < kEmbedding; ++i) {
    sum[i] += is_int8 ? scale * static_cast<float>(Load<int8_t>(embedding_.weights + begin + i))
                      : Load<float>(embedding_.weights + (begin + i) * sizeof(float));
  }
}

}  // namespace strata
