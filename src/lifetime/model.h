// How long an object will live, from the stack that allocates it: a GRU over its frames, from main
// inward, then over the size, and two softmaxes over the classes. A frame is the sum of its tokens'
// embeddings. After M. Maas et al., "Learning-based memory allocation for C++ server workloads",
// ASPLOS 2020, section 5.2, with frames instead of tokens as steps, and K. Cho et al., "Learning
// phrase representations using RNN encoder-decoder", EMNLP 2014, section 2.3. Sits in lifetime.
//
// Allocates nothing and calls nobody. A model that was opened is read-only: any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/placement.h"
#include "lifetime/kernels.h"
#include "lifetime/model_file.h"

namespace strata {

// Frames of a stack that count: the innermost.
inline constexpr size_t kMostFrames = 64;

// What the GRU takes of a frame; made once for a call site, off the path.
struct FrameRow {
  float gates[kGates];
  uint64_t name;  // a hash of it, with its place
};

struct ModelState {
  float hidden[kHidden];
};

// What is said of a stack and a size.
struct Forecast {
  LifetimeClass likeliest{};       // within which 95 % of its objects die
  float odds[kLifetimeClasses];    // that this is the class
  float shares[kLifetimeClasses];  // of its objects that die in each
};

class Model {
 public:
  // The bytes, a mapped file's, must stay. Only an open model may be asked.
  ModelError Open(const void* bytes, size_t n, const Kernels& kernels = ChooseKernels()) {
    const ModelError error = file_.Open(bytes, n);
    kernels_ = error == ModelError::kNone ? &kernels : nullptr;
    return error;
  }
  bool is_open() const { return kernels_ != nullptr; }
  const ModelFile& file() const { return file_; }
  const Kernels& kernels() const { return *kernels_; }

 private:
  ModelFile file_;
  const Kernels* kernels_ = nullptr;
};

// A function by its symbol as the ELF table has it, or by its place (tokens.h).
void RowOf(const Model& model, const char* name, size_t length, FrameRow* out);

// The outermost frame; then each one that it calls.
void Start(const Model& model, const FrameRow& row, ModelState* state);
void Step(const Model& model, ModelState* state, const FrameRow& row,
          RowOrder order = RowOrder::kFromFirst);

// By the network. `bytes` is the size class's. The state stays that of the frames.
Forecast Classify(const Model& model, const ModelState& state, size_t bytes);

// The whole of it. `rows` are the stack's, innermost first, as an unwinder finds them. Of a stack
// that the model knows the network is not asked.
Forecast Predict(const Model& model, const FrameRow* const* rows, size_t n, size_t bytes);

}  // namespace strata
