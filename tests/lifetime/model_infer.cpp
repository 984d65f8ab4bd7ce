// `model_infer MODEL`: what a prediction for a stack of 20 frames costs whose rows are there, and
// what a row costs, on each kernel that this machine can run. The best of many rounds.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "lifetime/model.h"

namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kPage = 4096;
constexpr size_t kFrames = 20;
constexpr int kRounds = 50;
constexpr int kCalls = 200;

template <typename Work>
double BestMicroseconds(Work work) {
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = Clock::now();
    for (int call = 0; call < kCalls; ++call) work(call);
    const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
    best = took.count() / kCalls < best ? took.count() / kCalls : best;
  }
  return best;
}

int Measure(const void* bytes, size_t length, const strata::Kernels& kernels) {
  strata::Model model;
  const strata::ModelError error = model.Open(bytes, length, kernels);
  if (error != strata::ModelError::kNone) {
    fprintf(stderr, "model_infer: %s\n", strata::TextOf(error));
    return 1;
  }
  strata::FrameRow rows[kFrames];
  const strata::FrameRow* stack[kFrames];
  for (size_t i = 0; i < kFrames; ++i) {
    const std::string name = "function_" + std::to_string(i);
    strata::RowOf(model, name.data(), name.size(), &rows[i]);
    stack[i] = &rows[i];
  }
  volatile int sink = 0;
  const double predict = BestMicroseconds([&](int call) {
    const auto bytes_asked = static_cast<size_t>(call);
    sink = static_cast<int>(strata::Predict(model, stack, kFrames, bytes_asked).likeliest);
  });
  const double row = BestMicroseconds(
      [&](int) { strata::RowOf(model, "_ZN5outer5inner8functionEv", 26, &rows[0]); });
  printf("%-8s  20 frames %.2f us, a row %.2f us\n", kernels.name, predict, row);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: model_infer MODEL\n");
    return 2;
  }
  std::ifstream file(argv[1], std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  // At the beginning of a page, as in a process: a vector that crosses cache lines costs twice.
  const size_t length = bytes.size();
  void* const at = std::aligned_alloc(kPage, (length + kPage - 1) / kPage * kPage);
  if (at == nullptr) return 1;
  memcpy(at, bytes.data(), length);
  int status = 0;
  for (const auto* kernels : strata::AllKernels()) {
    if (strata::CanRun(*kernels) && status == 0) status = Measure(at, length, *kernels);
  }
  free(at);
  return status;
}
