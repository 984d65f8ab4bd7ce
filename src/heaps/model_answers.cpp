// See model_answers.h.
#include "heaps/model_answers.h"

#include <algorithm>
#include <cstring>

namespace strata {
namespace {

// As much as a few samples, and all of one kind: it decides alone, and where a place has other
// stacks too it is outvoted by what is seen.
constexpr float kWorth = 4;
// Seen by the process itself, so many samples count and the model does not.
constexpr float kEnough = 4;
constexpr double kSure = 0.9;
// Of a place's objects, to make it last. Not as many as samples have to show: a recording's end
// frees what would have lasted.
constexpr double kMostLast = 0.75;

// In a burst, what dies first would make the rest seem to last. The model knows better, but may be
// another program's: nothing waits for it longer than this.
constexpr double kMostWaitNs = 1e9;

// Begins the names of what stands for stacks that are not known (profile/stack_walk.cpp).
constexpr char kNoStack[] = "strata_";
constexpr size_t kNoStackLength = sizeof(kNoStack) - 1;

// Where a class begins: what lives in it lives longer than this. Class 1 is at index 0.
constexpr double kBeginNs[kLifetimeClasses] = {0, 10e6, 100e6, 1e9, 10e9, 100e9, 1000e9, 1e300};

// A file may have any weights.
bool AreNumbers(const Forecast& said) {
  float odds = 0, shares = 0;
  for (size_t i = 0; i < kLifetimeClasses; ++i) {
    odds += said.odds[i];
    shares += said.shares[i];
  }
  return odds > 0.99f && odds < 1.01f && shares > 0.99f && shares < 1.01f;
}

}  // namespace

// Turns names into the rows that the model takes.
class ModelAnswers::Projector : public FrameNames::Sink {
 public:
  Projector(ModelAnswers& answers, const Model& model)
      : Sink(TakeName), answers_(answers), model_(model) {}

 private:
  static void TakeName(Sink& self, uintptr_t frame, const char* name, size_t length) {
    auto& to = static_cast<Projector&>(self);
    FrameSlot* slot = to.answers_.SlotOf(frame);
    if (slot->frame == frame || !to.answers_.frame_rows_.Reserve(1)) return;
    *slot = {frame, to.answers_.frame_rows_.size(),
             length >= kNoStackLength && memcmp(name, kNoStack, kNoStackLength) == 0};
    RowOf(to.model_, name, length, to.answers_.frame_rows_.data() + slot->row);
    to.answers_.frame_rows_.Grow(1);
  }

  ModelAnswers& answers_;
  const Model& model_;
};

ModelAnswers::FrameSlot* ModelAnswers::SlotOf(uintptr_t frame) {
  size_t i = static_cast<size_t>((uint64_t{frame} * 0x9e3779b97f4a7c15u) >> 52);
  static_assert(kFrameSlots == size_t{1} << (64 - 52));
  while (slots_[i].frame != 0 && slots_[i].frame != frame) i = (i + 1) % kFrameSlots;
  return &slots_[i];
}

void ModelAnswers::ForgetFrames() {
  slots_.Free();
  frame_rows_.Free();
}

bool ModelAnswers::MakeRoom(size_t rows) {
  return answers_.Extend(rows) && said_.Extend((kNumSizes + 1) * kLifetimeClasses);
}

// The rows to ask about, and what the samples since the last time say of the others. Room is made
// while the sampler's lock is free, and only where something is new.
void ModelAnswers::Collect(const Sampler& sampler) {
  const auto visit = [this, &sampler](auto&& f) {
    sampler.VisitRows([&](const SampleRow& row, const SampleSums& sums) {
      if (row.number >= answers_.size() || row.site.key == 0 || row.bytes > kMaxClassSize) return;
      f(row, sums, answers_[row.number]);
    });
  };
  bool has_news = false;
  visit([&](const SampleRow&, const SampleSums& sums, Answer& answer) {
    (answer.is_asked ? stats_.hits : stats_.misses) += sums.samples - answer.samples;
    answer.samples = sums.samples;
    has_news |= !answer.is_asked;
  });
  if (!has_news || !fresh_.Reserve(kMostRowsARound)) return;
  visit([&](const SampleRow& row, const SampleSums&, const Answer& answer) {
    if (!answer.is_asked && fresh_.size() < kMostRowsARound) fresh_.Append(&row);
  });
}

bool ModelAnswers::NameFrames(const Model& model, FrameNamer& namer) {
  if (!slots_.Extend(kFrameSlots)) return false;
  frames_.Clear();
  for (size_t i = 0; i < fresh_.size(); ++i) {
    const StackContext& context = *fresh_[i]->context;
    for (size_t k = 0; k < std::min(context.depth, kMostFrames); ++k) {
      const uintptr_t frame = context.frames()[k];
      if (frame != 0 && SlotOf(frame)->frame == 0 && !frames_.Append(frame)) return false;
    }
  }
  uintptr_t* const end = frames_.data() + frames_.size();
  std::sort(frames_.data(), end);
  const auto n = static_cast<size_t>(std::unique(frames_.data(), end) - frames_.data());
  if (n == 0) return true;
  if (frame_rows_.size() + n > kMostFrameRows) {
    if (frame_rows_.size() == 0) return false;  // more at once than there is room for
    ForgetFrames();
    return NameFrames(model, namer);
  }
  Projector projector(*this, model);
  return namer.Name(frames_.data(), n, projector);
}

void ModelAnswers::Ask(const Model& model, const SampleRow& row) {
  const FrameRow* rows[kMostFrames];
  const size_t n = std::min(row.context->depth, kMostFrames);
  for (size_t i = 0; i < n; ++i) {
    const FrameSlot* slot = SlotOf(row.context->frames()[i]);
    if (slot->frame == 0) return;  // no memory for its name: another time
    rows[i] = &frame_rows_[slot->row];
  }
  Answer& answer = answers_[row.number];
  if (n == 0 || SlotOf(row.context->frames()[n - 1])->is_no_stack) {
    answer.is_asked = true;
    return;
  }
  const Forecast said = Predict(model, rows, n, row.bytes);
  answer.is_asked = true;
  if (!AreNumbers(said)) return;
  ++stats_.asked;
  stats_.sure += said.odds[static_cast<size_t>(said.likeliest) - 1] >= kSure;
  answer.likeliest = said.likeliest;
  answer.size_class = ClassOfSize(row.bytes);
  for (size_t i = 0; i < kLifetimeClasses; ++i)
    answer.shares[i] = static_cast<uint8_t>(said.shares[i] * 255.0f + 0.5f);
  row.predicted.store(static_cast<uint8_t>(answer.likeliest), std::memory_order_relaxed);
}

size_t ModelAnswers::AskNew(const Model& model, const Sampler& sampler, FrameNamer& namer) {
  const uint64_t before = stats_.asked;
  if (!MakeRoom(sampler.rows())) return 0;
  Collect(sampler);
  if (fresh_.size() == 0) return 0;
  // Fewer, if their stacks are so many that their frames do not fit.
  while (fresh_.size() != 0 && !NameFrames(model, namer)) {
    const size_t half = fresh_.size() / 2;
    fresh_.Clear();
    fresh_.Grow(half);
  }
  for (size_t i = 0; i < fresh_.size(); ++i) Ask(model, *fresh_[i]);
  fresh_.Free();
  frames_.Free();
  return static_cast<size_t>(stats_.asked - before);
}

bool ModelAnswers::WasSaid(SizeClass c) const {
  const double* said = &said_[Raw(c) * kLifetimeClasses];
  return std::any_of(said, said + kLifetimeClasses, [](double weight) { return weight > 0; });
}

// The median of what the model says of a size, as an index.
size_t ModelAnswers::UsualClass(SizeClass c) const {
  const double* said = &said_[Raw(c) * kLifetimeClasses];
  double all = 0, sum = 0;
  for (size_t k = 0; k < kLifetimeClasses; ++k) all += said[k];
  for (size_t k = 0; k < kLifetimeClasses; ++k) {
    if ((sum += said[k]) * 2 >= all) return k;
  }
  return kLifetimeClasses - 1;
}

void ModelAnswers::SayUsual(LifetimeEvidence& evidence, size_t n) {
  for (size_t i = 0; i < said_.size(); ++i) said_[i] = 0;
  for (size_t i = 0; i < n; ++i) {
    const Answer& a = answers_[i];
    if (a.likeliest == LifetimeClass::kUnknown) continue;
    const auto samples = static_cast<double>(std::max<uint64_t>(a.samples, 1));
    double* said = &said_[Raw(a.size_class) * kLifetimeClasses];
    for (size_t k = 0; k < kLifetimeClasses; ++k) said[k] += samples * a.shares[k];
  }
  for (size_t c = 1; c <= kNumSizes; ++c) {
    const auto size_class = static_cast<SizeClass>(c);
    const size_t next = UsualClass(size_class) + 1;
    if (WasSaid(size_class) && next < kLifetimeClasses)
      evidence.SetLeastUsual(size_class, std::min(kBeginNs[next], kMostWaitNs));
  }
}

void ModelAnswers::AddTo(LifetimeEvidence& evidence) {
  if (said_.size() == 0) return;  // nobody was asked
  const size_t n = std::min(answers_.size(), evidence.size());
  SayUsual(evidence, n);
  stats_.disagreements = 0;
  for (size_t i = 0; i < n; ++i) {
    Answer& a = answers_[i];
    if (a.likeliest == LifetimeClass::kUnknown) continue;
    // What outlives the usual class, or what is usual as it was seen.
    const double usual_ns = evidence.usual_ns(a.size_class);
    const size_t usual = UsualClass(a.size_class);
    double lasts = 0, all = 0;
    for (size_t k = 0; k < kLifetimeClasses; ++k) {
      const bool beyond = evidence.knows_usual(a.size_class) ? kBeginNs[k] >= usual_ns : k > usual;
      lasts += beyond ? a.shares[k] : 0;
      all += a.shares[k];
    }
    const bool does = lasts >= kMostLast * all, does_not = lasts <= (1 - kSure) * all;
    SiteEvidence& e = evidence.rows()[i];
    if (e.lasted + e.passed >= kEnough) {
      const bool did = e.lasted > e.passed;
      a.disagrees = (does && !did) || (does_not && did);
    }
    a.is_overruled |= e.lasted + e.passed >= kEnough || evidence.DeathsOf(i) >= kEnough;
    stats_.disagreements += a.disagrees;
    if (a.is_overruled) continue;
    if (does) {
      e.lasted = kWorth;
      e.passed = 0;
    } else if (does_not) {
      e.lasted = 0;
      e.passed = kWorth;
    }
  }
}

}  // namespace strata
