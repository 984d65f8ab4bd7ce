// See lifetimes.h.
#include "malloc/lifetimes.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <new>

#include "base/check.h"
#include "base/error_text.h"
#include "base/message.h"
#include "heaps/lifetime_evidence.h"
#include "lifetime/site_learner.h"
#include "malloc/guard.h"
#include "malloc/live_options.h"
#include "malloc/predicted_path.h"
#include "malloc/runtime.h"
#include "os/confinement.h"
#include "profile/scratch_array.h"
#include "profile/stack_walk.h"
#include "profile/unwind/stack_reader.h"
#include "strata/raw_io.h"

namespace strata {

namespace predicted_internal {
alignas(64) constinit STRATA_LARGE PredictionCache::Words g_words{};
constinit std::atomic<Predicting> g_predicts{kTakesHalfToLast ? Predicting::kClosely
                                                              : Predicting::kNothing};
constinit std::atomic<bool> g_asks_of_new{false};
constinit STRATA_LARGE std::atomic<uint64_t> g_met[(1 << kMetBits) / 64]{};
constinit std::atomic<uint32_t> g_hits{0};
}  // namespace predicted_internal

namespace {

std::atomic<size_t> g_places{0};
std::atomic<uint64_t> g_changes{0};
std::atomic<uint64_t> g_rounds{0};
std::atomic<size_t> g_bytes{0};
std::atomic<size_t> g_interval{0};  // the sampler's, if set here
struct {
  std::atomic<uint64_t> asked{0}, hits{0}, misses{0}, disagreements{0};
} g_model_stats;

constinit Model g_model;  // open or not from the start of the process on
size_t g_model_bytes = 0;

// What a look costs at most, as a part of the time between two; and where a model has new stacks to
// look at, which end soon.
constexpr uint64_t kPartOfTime = 100, kPartWithNews = 10;
constexpr uint64_t kBusyNs = 100'000'000, kIdleNs = 1'000'000'000, kNewsNs = 5'000'000;

// Until a model has seen the stacks, samples are worth more than they cost.
constexpr size_t kDenseInterval = 32 << 10;
constexpr uint64_t kDenseNs = 500'000'000;
constexpr uint64_t kMostDenseNs = 10'000'000'000;  // in the life of a process
constexpr uint64_t kManyNew = 32;                  // one sample in so many brings a new stack
// A place of one byte in 10,000 is sampled among so many, 1 GiB, 24 times in 25. They cost some 50
// ms of a processor, once.
constexpr uint64_t kEnoughSamples = 32 << 10;
constexpr uint64_t kMostRestNs = 5'000'000'000;
// Of a size, at once, before what lasts of it is kept apart.
constexpr size_t kLeastSpans = 16;

static_assert(SiteLearner::kMostFrames <= SampleSite::kMostFrames);

// By the tables of the files that are mapped.
class ProcessNamer : public FrameNamer {
 public:
  explicit ProcessNamer(FrameNames& names) : FrameNamer(NameFrames), names_(names) {}

 private:
  static bool NameFrames(FrameNamer& self, const uintptr_t* frames, size_t n,
                         FrameNames::Sink& sink) {
    return static_cast<ProcessNamer&>(self).names_.Name(frames, n, OpensFiles{MayOpenFiles()},
                                                        sink);
  }
  FrameNames& names_;
};

// The whole file in memory of its own: one that is written anew while the program runs must not
// end it, as a mapped one would. Returns null, with errno, or a length of 0.
const char* ReadWhole(const char* path, size_t most, size_t* length) {
  const int fd = raw::Open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) return nullptr;
  void* p = mmap(nullptr, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p != MAP_FAILED) {
    ssize_t n = 0;
    do {
      n = raw::Read(fd, static_cast<char*>(p) + *length, most - *length);
      if (n > 0) *length += static_cast<size_t>(n);
    } while ((n > 0 && *length < most) || (n < 0 && errno == EINTR));
    const size_t used = RoundUp(*length, kNativePageSize);
    if (used < most) munmap(static_cast<char*>(p) + used, most - used);
  }
  raw::Close(fd);
  return p == MAP_FAILED || *length == 0 ? nullptr : static_cast<const char*>(p);
}

// While a model predicts nothing, as that of another program, samples cost no more than without
// one.
size_t IntervalAtRest(const Runtime& r) {
  const size_t interval = r.options.sample_interval;
  const bool predicts = g_places.load(std::memory_order_relaxed) != 0;
  return predicts ? interval : std::max(interval, kDefaultSampleInterval);
}

alignas(LifetimeLearner) STRATA_LARGE unsigned char g_learner[sizeof(LifetimeLearner)];
constinit bool g_has_learner = false;  // the background thread's

}  // namespace

STRATA_ONCE void OpenModel(Runtime& r) {
  if (r.options.lifetimes != LifetimeChoice::kModel) return;
  constexpr size_t kMost = size_t{4} << 20;
  size_t length = 0;
  errno = 0;
  const char* bytes = ReadWhole(r.options.model, kMost, &length);
  const char* why = bytes != nullptr ? nullptr : errno != 0 ? ErrorText(errno) : "it is empty";
  uint32_t other_version = 0;
  if (bytes != nullptr) {
    const ModelError error = g_model.Open(bytes, length);
    if (error == ModelError::kNone) {
      g_model_bytes = RoundUp(length, kNativePageSize);
      g_bytes.store(g_model_bytes, std::memory_order_relaxed);
      return;
    }
    why = TextOf(error);
    if (error == ModelError::kOtherVersion) other_version = ModelVersionOf(bytes);
    munmap(const_cast<char*>(bytes), RoundUp(length, kNativePageSize));
  }
  Message message;
  message.Text("no model: ").Text(r.options.model).Text(": ").Text(why);
  if (other_version != 0) {
    message.Text(" (").Number(other_version).Text("; this library reads ").Number(kModelVersion);
    message.Text(")");
  }
  message.Send();
  r.options.lifetimes = LifetimeChoice::kOff;
  if (r.options.adapts_sample) r.sampler.SetInterval(kDefaultSampleInterval);
}

LifetimeLearner& TheLearner() {
  auto* learner = reinterpret_cast<LifetimeLearner*>(g_learner);
  if (!g_has_learner) learner = ::new (g_learner) LifetimeLearner;
  g_has_learner = true;
  return *learner;
}

// What it had allocated stays behind: the fork may have come in the midst of a change.
void ForgetLearningInChild() {
  if (!g_has_learner) return;
  TheLearner().RestInChild();
  g_has_learner = false;
}

void LifetimeLearner::AskModel(Runtime& r) {
  if (!g_model.is_open() || !MayCallAnything()) return;
  if (UnwindTablesPublished() != files_) answers_.ForgetFrames();
  files_ = UnwindTablesPublished();
  ProcessNamer namer(names_);
  answers_.AskNew(g_model, r.sampler, namer);
  // Where new ones are rare, their frames keep no memory.
  if (!SeeksStacks() || !was_dense_) answers_.ForgetFrames();
}

bool LifetimeLearner::SeeksStacks() { return TheRuntime().sampler.rows() < kMostRowsSought; }

// A model of another program is seldom sure.
bool LifetimeLearner::KnowsProgram() const {
  return answers_.stats().sure * 2 > answers_.stats().asked;
}

// At the start, and while samples bring new stacks; a model that knows the program may know a place
// that few of them find. Not for ever, whatever a program does.
bool LifetimeLearner::IsDense(uint64_t now_ns, uint64_t new_samples) {
  if (dense_until_ == 0) dense_until_ = now_ns + kDenseNs;
  const bool counts = new_samples != 0 || looked_ns_ < dense_until_;
  if (was_dense_ && counts && now_ns > looked_ns_) dense_ns_ += now_ns - looked_ns_;
  const ModelStats& stats = answers_.stats();
  const uint64_t new_stacks = stats.asked - stacks_;
  without_news_ = new_stacks != 0 ? 0 : without_news_ + new_samples;
  if (new_stacks != 0 && new_stacks * kManyNew >= new_samples) dense_until_ = now_ns + kDenseNs;
  const bool has_more = KnowsProgram() && without_news_ < kEnoughSamples;
  was_dense_ = (now_ns < dense_until_ || has_more) && dense_ns_ < kMostDenseNs && SeeksStacks();
  return was_dense_;
}

// Who sets another interval meanwhile keeps it.
void LifetimeLearner::AdaptSampling(Runtime& r, size_t interval) {
  if (!g_model.is_open() || !LoadOption(r.options.adapts_sample)) return;
  size_t now = g_interval.load(std::memory_order_relaxed);
  if (now == 0) now = r.options.sample_interval;
  if (r.sampler.rate().interval != now) return;
  g_interval.store(interval, std::memory_order_relaxed);  // first: see RestInChild
  if (interval != now) r.sampler.SetInterval(interval);
}

void LifetimeLearner::EndDenseIfFull(Runtime& r) {
  if (STRATA_LIKELY(SeeksStacks())) return;
  size_t dense = kDenseInterval;
  const size_t interval = IntervalAtRest(r);
  if (g_interval.load(std::memory_order_relaxed) == dense && r.sampler.rate().interval == dense &&
      g_interval.compare_exchange_strong(dense, interval, std::memory_order_relaxed))
    r.sampler.SetInterval(interval);
}

void LifetimeLearner::Rest() { AdaptSampling(TheRuntime(), IntervalAtRest(TheRuntime())); }

void LifetimeLearner::RestInChild() {
  Runtime& r = TheRuntime();
  const size_t set = g_interval.exchange(0, std::memory_order_relaxed);
  const size_t now = r.sampler.rate().interval;
  // The fork may have come between the two, in a change from dense to rest or back.
  if (set != 0 && (now == set || now == kDenseInterval || now == IntervalAtRest(r)))
    r.sampler.SetIntervalInChild(r.options.sample_interval);
}

// Of a size, no more can be gained than its spans take. Apart, what lasts of it costs about a span,
// and the other's caches. What was large once counts for ever: a size whose bursts come and go
// would lose with each what was learned in it.
void LifetimeLearner::HeedWhatIsLarge(Runtime& r) {
  for (size_t i = 1; i <= kNumSizes; ++i) {
    const auto c = static_cast<SizeClass>(i);
    const auto* list = r.heap.central().Find(c);
    was_large_[i] |= list != nullptr && list->objects_out() >= kLeastSpans * InfoOf(c).objects;
    evidence_.SetCounts(c, was_large_[i]);
  }
}

void LifetimeLearner::Learn(Runtime& r, OpensFiles opens) {
  ScratchArray<SiteTally> tallies;
  ScratchArray<uint64_t> words;
  if (opens == OpensFiles::kYes) AskModel(r);
  HeedWhatIsLarge(r);
  if (!evidence_.Gather(r.sampler, r.kernel.NowNs())) return;
  answers_.AddTo(evidence_);
  const ModelStats& stats = answers_.stats();
  g_model_stats.asked.store(stats.asked, std::memory_order_relaxed);
  g_model_stats.hits.store(stats.hits, std::memory_order_relaxed);
  g_model_stats.misses.store(stats.misses, std::memory_order_relaxed);
  g_model_stats.disagreements.store(stats.disagreements, std::memory_order_relaxed);
  const size_t slots = std::bit_ceil(2 * evidence_.size() + 1);
  if (!tallies.Reserve(slots) || !words.Reserve(PredictionCache::kEntries)) return;
  words.Grow(PredictionCache::kEntries);
  g_bytes.store(
      g_model_bytes + answers_.bytes() + evidence_.bytes() + sizeof(predicted_internal::g_words),
      std::memory_order_relaxed);
  PredictionCache::Draft draft(words.data());
  SiteLearner learner(tallies.data(), slots, Predictions());
  const size_t made = learner.Decide(evidence_.rows(), evidence_.size(), draft);
  g_changes.fetch_add(Predictions().Publish(draft), std::memory_order_relaxed);
  g_places.store(made, std::memory_order_relaxed);
  const bool asks_of_new = KnowsProgram() && SeeksStacks() && (made != 0 || was_dense_);
  predicted_internal::g_asks_of_new.store(asks_of_new, std::memory_order_relaxed);
  const bool predicts = made != 0 || asks_of_new || kTakesHalfToLast;
  const Predicting how =
      asks_of_new || GuardsSeeAll() ? Predicting::kClosely : Predicting::kPlainly;
  predicted_internal::g_predicts.store(predicts ? how : Predicting::kNothing,
                                       std::memory_order_relaxed);
  g_rounds.fetch_add(1, std::memory_order_relaxed);
}

// Stacks are unknown until the unwind tables are made, which else is the tick's business. A program
// that sleeps between two requests is not at rest: the next look is after as long again as there
// were no samples.
uint64_t LifetimeLearner::Look(uint64_t now_ns, OpensFiles opens) {
  Runtime& r = TheRuntime();
  if (UnwindTablesStale() && MayCallAnything()) KeepUnwindTables();
  const uint64_t start = r.kernel.NowNs();
  const uint64_t samples = r.sampler.Stats().samples;
  const uint64_t more = samples - samples_;
  samples_ = samples;
  if (more != 0 || sampled_ns_ == 0) sampled_ns_ = now_ns;
  Learn(r, opens);
  const bool is_dense = opens == OpensFiles::kYes && g_model.is_open() && IsDense(now_ns, more);
  stacks_ = answers_.stats().asked;
  looked_ns_ = now_ns;
  AdaptSampling(r, is_dense ? kDenseInterval : IntervalAtRest(r));
  const bool has_news = is_dense && now_ns < dense_until_;
  const uint64_t part = has_news ? kPartWithNews : kPartOfTime;
  const uint64_t rest = std::min((r.kernel.NowNs() - start) * part, kMostRestNs);
  const uint64_t pause =
      std::clamp(now_ns - sampled_ns_, is_dense ? kNewsNs : kBusyNs, has_news ? kBusyNs : kIdleNs);
  return now_ns + std::max(rest, pause);
}

LearningStats StatsOfLearning() {
  return {g_places.load(std::memory_order_relaxed),
          g_changes.load(std::memory_order_relaxed),
          g_rounds.load(std::memory_order_relaxed),
          g_bytes.load(std::memory_order_relaxed),
          {g_model_stats.asked.load(std::memory_order_relaxed),
           g_model_stats.hits.load(std::memory_order_relaxed),
           g_model_stats.misses.load(std::memory_order_relaxed),
           g_model_stats.disagreements.load(std::memory_order_relaxed)}};
}

namespace {

// The word at an address of the caller's stack, if it lies on the page on which the stack pointer
// is: no other is known to be there.
STRATA_READS_STACK bool LoadNearby(uintptr_t frame, size_t words_up, uintptr_t* word) {
  const uintptr_t address = frame + words_up * sizeof(uintptr_t);
  if (words_up == 0 || ((address ^ frame) & ~(kNativePageSize - 1)) != 0) return false;
  *word = *reinterpret_cast<const volatile uintptr_t*>(address);
  return true;
}

// By the unwind tables, where the places of return addresses are not known or far up.
STRATA_NOINLINE SizeClass ClassByWalk(SiteKey key, SizeClass c) {
  uintptr_t frames[SiteLearner::kMostFrames + 1];
  const size_t n = WalkStack(frames, SiteLearner::kMostFrames + 1);
  for (size_t i = 1; i < n; ++i) {
    key = Deepened(key, frames[i]);
    const Prediction::Kind found = Predictions().Find(key).kind();
    if (found == Prediction::kLasts) return LastingClass(c);
    if (found == Prediction::kNone) return c;
  }
  return c;
}

}  // namespace

SizeClass ClassByCallers(AllocationSite site, SizeClass c, Prediction found) {
  const SiteKey innermost = site.KeyOf(c);
  SiteKey key = innermost;
  for (size_t i = 0; i < SiteLearner::kMostFrames; ++i) {
    uintptr_t caller;
    if (!LoadNearby(site.frame(), found.words_up(), &caller)) return ClassByWalk(innermost, c);
    key = Deepened(key, caller);
    found = Predictions().Find(key);
    if (found.kind() == Prediction::kLasts) return LastingClass(c);
    if (found.kind() == Prediction::kNone) return c;
  }
  return c;
}

}  // namespace strata
