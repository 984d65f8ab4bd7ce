// Models of the fuzzer's making: Open refuses them or they can be asked anything. Half of the
// inputs get a right checksum, so that what lies behind it is reached.
#include <cstring>
#include <vector>

#include "base/check.h"
#include "lifetime/model.h"

namespace {

constexpr size_t kChecksumAt = 24;

void Sign(std::vector<unsigned char>* bytes) {
  memset(bytes->data() + kChecksumAt, 0, sizeof(uint64_t));
  uint64_t value = 0xCBF29CE484222325;
  for (const unsigned char byte : *bytes) value = (value ^ byte) * 0x100000001B3;
  memcpy(bytes->data() + kChecksumAt, &value, sizeof(value));
}

void AskIt(const strata::Model& model, const char* text, size_t length) {
  strata::FrameRow rows[2];
  strata::RowOf(model, text, length, &rows[0]);
  strata::RowOf(model, "_ZN5outer5inner8functionEv", 26, &rows[1]);
  const strata::FrameRow* stack[] = {&rows[0], &rows[1], &rows[0]};
  const auto found = strata::Predict(model, stack, 3, length << 4).likeliest;
  STRATA_CHECK(found >= strata::LifetimeClass::kUnder10Ms);
  STRATA_CHECK(found <= strata::LifetimeClass::kForever);
  for (size_t i = 0; i < model.file().builds(); ++i) {
    STRATA_CHECK(strlen(model.file().build(i)) < strata::kBuildBytes);
  }
}

// A section of stacks, if there is one, begins at one of these places.
void FindStacks(const strata::ModelFile& file, const std::vector<unsigned char>& bytes) {
  for (size_t at = 0; at + sizeof(uint64_t) <= bytes.size(); at += 64) {
    uint64_t stack;
    memcpy(&stack, &bytes[at], sizeof(stack));
    const strata::KnownStack known = file.FindStack(stack);
    if (known.shares == nullptr) continue;
    STRATA_CHECK(known.likeliest >= 1 && known.likeliest <= strata::kLifetimeClasses);
    unsigned sum = 0;
    for (size_t i = 0; i < strata::kLifetimeClasses; ++i) sum += known.shares[i];
    STRATA_CHECK(sum == strata::kAllShares);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::vector<unsigned char> bytes(data + 1, data + size);
  if ((data[0] & 1) != 0 && bytes.size() >= kChecksumAt + sizeof(uint64_t)) Sign(&bytes);
  strata::Model model;
  const strata::ModelError error = model.Open(bytes.data(), bytes.size());
  STRATA_CHECK(strlen(strata::TextOf(error)) > 0);
  STRATA_CHECK(model.is_open() == (error == strata::ModelError::kNone));
  if (!model.is_open()) return 0;
  FindStacks(model.file(), bytes);
  const size_t length = bytes.size() < 64 ? bytes.size() : 64;
  AskIt(model, reinterpret_cast<const char*>(bytes.data()) + bytes.size() - length, length);
  return 0;
}
