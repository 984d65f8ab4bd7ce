// The steps of a prediction on the kernels that were chosen. Sits in lifetime.
#include "lifetime/model.h"

#include <algorithm>
#include <cstring>

#include "lifetime/tokens.h"

namespace strata {
namespace {

void AddProduct(const Model& model, const Matrix& m, const float* x, size_t rows, size_t columns,
                float* y, RowOrder order = RowOrder::kFromFirst) {
  const Kernels& kernels = model.kernels();
  if (m.scales == nullptr) return kernels.add_product(m.weights, x, rows, columns, order, y);
  kernels.add_product8(m.weights, m.scales, x, rows, columns, order, y);
}

void Project(const Model& model, const float* embedding, FrameRow* out) {
  memcpy(out->gates, model.file().input_bias(), sizeof(out->gates));
  AddProduct(model, model.file().input(), embedding, kEmbedding, kGates, out->gates);
}

// Of kLifetimeClasses; the first if they are no numbers.
size_t Greatest(const float* odds) {
  size_t best = 0;
  for (size_t i = 1; i < kLifetimeClasses; ++i) {
    if (odds[i] > odds[best]) best = i;
  }
  return best;
}

// What the head says of the class, and of an object.
Forecast Softmaxes(const Kernels& kernels, const float* logits) {
  const float* of_object = logits + kLifetimeClasses;
  const size_t likeliest = Greatest(logits);
  const float greatest[] = {logits[likeliest], of_object[Greatest(of_object)]};
  float odds[kHeadColumns];
  static_assert(kHeadColumns == 2 * kLifetimeClasses);
  for (size_t i = 0; i < kHeadColumns; ++i) odds[i] = logits[i] - greatest[i / kLifetimeClasses];
  kernels.exponentials(odds);
  float sums[2] = {};
  for (size_t i = 0; i < kHeadColumns; ++i) sums[i / kLifetimeClasses] += odds[i];
  Forecast out{static_cast<LifetimeClass>(likeliest + 1), {}, {}};
  for (size_t i = 0; i < kLifetimeClasses; ++i) {
    out.odds[i] = odds[i] / sums[0];
    out.shares[i] = odds[kLifetimeClasses + i] / sums[1];
  }
  return out;
}

KnownStack FindStack(const ModelFile& file, const FrameRow* const* rows, size_t n, size_t bytes) {
  if (n == 0 || !file.knows_stacks()) return {};
  uint64_t hash = 0xCBF29CE484222325;
  for (size_t i = 0; i < n; ++i) hash = (hash ^ rows[i]->name) * 0x100000001B3;
  return file.FindStack((hash ^ bytes) * 0x100000001B3);
}

Forecast Recorded(const KnownStack& known) {
  Forecast out{static_cast<LifetimeClass>(known.likeliest), {}, {}};
  out.odds[known.likeliest - 1] = 1;
  for (size_t i = 0; i < kLifetimeClasses; ++i)
    out.shares[i] = static_cast<float>(known.shares[i]) / kAllShares;
  return out;
}

}  // namespace

void RowOf(const Model& model, const char* name, size_t length, FrameRow* out) {
  TokenHashes tokens;
  Tokenize(name, length, &tokens);
  out->name = HashOfToken(name, length);
  float sum[kEmbedding] = {};
  if (tokens.count == 0) model.file().AddEmbedding(0, sum);
  for (size_t i = 0; i < tokens.count; ++i) {
    model.file().AddEmbedding(model.file().RowOfToken(tokens.hash[i]), sum);
  }
  // A place that is not known adds nothing.
  const uint32_t site = tokens.site == 0 ? 0 : model.file().RowOfToken(tokens.site);
  if (site != 0) model.file().AddEmbedding(site, sum);
  Project(model, sum, out);
}

void Start(const Model& model, const FrameRow& row, ModelState* state) {
  *state = {};
  float recurrent[kGates];  // of a state of zeros
  memcpy(recurrent, model.file().hidden_bias(), sizeof(recurrent));
  model.kernels().gates(row.gates, recurrent, state->hidden);
}

void Step(const Model& model, ModelState* state, const FrameRow& row, RowOrder order) {
  float recurrent[kGates];
  memcpy(recurrent, model.file().hidden_bias(), sizeof(recurrent));
  AddProduct(model, model.file().hidden(), state->hidden, kHidden, kGates, recurrent, order);
  model.kernels().gates(row.gates, recurrent, state->hidden);
}

Forecast Classify(const Model& model, const ModelState& state, size_t bytes) {
  float embedding[kEmbedding] = {};
  const SizeRows rows = model.file().RowsOfSize(bytes);
  model.file().AddEmbedding(rows.coarse, embedding);
  model.file().AddEmbedding(rows.fine, embedding);
  FrameRow size;
  Project(model, embedding, &size);
  ModelState last = state;
  Step(model, &last, size);
  float logits[kHeadColumns];
  memcpy(logits, model.file().head_bias(), sizeof(logits));
  AddProduct(model, model.file().head(), last.hidden, kHidden, kHeadColumns, logits);
  return Softmaxes(model.kernels(), logits);
}

Forecast Predict(const Model& model, const FrameRow* const* rows, size_t n, size_t bytes) {
  n = std::min(n, kMostFrames);
  const KnownStack known = FindStack(model.file(), rows, n, bytes);
  if (known.shares != nullptr) return Recorded(known);
  ModelState state{};
  size_t i = n;
  if (i != 0) Start(model, *rows[--i], &state);
  while (i-- > 0)  // then Classify, from the first
    Step(model, &state, *rows[i], i % 2 == 0 ? RowOrder::kFromLast : RowOrder::kFromFirst);
  return Classify(model, state, bytes);
}

}  // namespace strata
