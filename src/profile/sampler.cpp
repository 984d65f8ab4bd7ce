// Noting samples, their frees and their moves. See sampler.h.
#include "profile/sampler.h"

#include <bit>

#include "span/span.h"

namespace strata {
namespace {

// Large blocks have no class: eight steps a doubling, as the classes have.
size_t RoundedSize(size_t size) {
  if (size <= kMaxClassSize) return InfoOf(ClassOfSize(size)).size;
  const size_t step = size_t{1} << (std::bit_width(size - 1) - 4);
  return RoundUp(size, step);
}

}  // namespace

extern "C" STRATA_NOINLINE void strata_stacks_beyond_the_table() {}

// Records are linked while the number is odd. Their stores release, so that who sees one of them
// sees the odd number; look-ups acquire with each load and compare the number at the end.
class Sampler::Change {
 public:
  explicit Change(Sampler& s) : number_(s.changes_) { Bump(std::memory_order_relaxed); }
  ~Change() { Bump(std::memory_order_release); }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;

 private:
  void Bump(std::memory_order order) {
    number_.store(number_.load(std::memory_order_relaxed) + 1, order);
  }
  std::atomic<uint32_t>& number_;
};

void Sampler::SetInterval(size_t bytes) {
  LockHolder hold(lock_);
  SetIntervalInChild(bytes);
}

void Sampler::SetIntervalInChild(size_t bytes) {
  if (bytes > kMostSampleInterval) bytes = kMostSampleInterval;
  const uint64_t epoch = (rate_.load(std::memory_order_relaxed) >> kIntervalBits) + 1;
  rate_.store((epoch << kIntervalBits) | bytes, std::memory_order_relaxed);
}

bool Sampler::MayHold(uintptr_t address) const {
  const uint32_t before = changes_.load(std::memory_order_acquire);
  if (before % 2 != 0) return true;
  const Directory* d = directory_.load(std::memory_order_acquire);
  if (d == nullptr) return false;
  const LiveSample* s = d->buckets()[d->BucketOf(address)].load(std::memory_order_acquire);
  for (size_t steps = 0; s != nullptr; s = s->next.load(std::memory_order_acquire)) {
    if (s->address.load(std::memory_order_acquire) == address || ++steps == kMostSteps) return true;
  }
  return changes_.load(std::memory_order_relaxed) != before;
}

bool Sampler::Add(const SampleEvent& e, size_t size, double expected, const uintptr_t* stack,
                  size_t depth, double* weight_out) {
  if (IsInterrupted()) return false;
  LockHolder hold(lock_);
  ++samples_;
  SampleRow* row = RowOf(e.site, size, stack, depth);
  LiveSample* s = row == nullptr || !MakeRoom() ? nullptr : NewLive();
  if (s == nullptr) {
    ++dropped_;
    return false;
  }
  s->row = s->first_row = row;
  s->size = s->allocated = size;
  s->SetExpected(expected);
  s->born_ns = e.now_ns;
  s->thread = e.thread;
  s->cpu = e.cpu;
  {
    Change change(*this);
    Link(s, e.address);
  }
  ++live_;
  const double weight = s->weight();
  if (weight_out != nullptr) *weight_out = weight;
  ++row->sums.samples;
  row->sums.allocated_objects += weight;
  row->sums.allocated_bytes += weight * static_cast<double>(size);
  ChangeLive(*row, 1, weight, weight * static_cast<double>(size));
  NotePeak();
  return true;
}

void Sampler::NotePlace(const SampleSite& site, size_t size, const uintptr_t* stack, size_t depth) {
  if (IsInterrupted()) return;
  LockHolder hold(lock_);
  RowOf(&site, size, stack, depth);
}

bool Sampler::Remove(const SampleEvent& e) {
  if (!MayHold(e.address) || IsInterrupted()) return false;
  LockHolder hold(lock_);
  LiveSample* s;
  {
    Change change(*this);
    s = Unlink(e.address);
    if (s == nullptr) return false;
    s->next.store(free_live_, std::memory_order_release);
    free_live_ = s;
  }
  --live_;
  SampleRow& row = *s->row;
  const double weight = s->weight();
  const uint64_t lived = e.now_ns > s->born_ns ? e.now_ns - s->born_ns : 0;
  if (row.histogram == nullptr) row.histogram = arena_.New<LifetimeHistogram>();
  if (row.histogram != nullptr) row.histogram->weight[LifetimeHistogram::BucketOf(lived)] += weight;
  Lifetimes& l = row.sums.lifetimes;
  l.Add(lived, weight, static_cast<double>(s->size));
  if (s->thread != e.thread) l.other_thread += weight;
  if (s->cpu != e.cpu) l.other_cpu += weight;
  ChangeLive(row, -1, -weight, -weight * static_cast<double>(s->size));
  return true;
}

bool Sampler::Move(uintptr_t from, uintptr_t to, size_t size, double more_expected,
                   double* weight_out) {
  if (!MayHold(from) || IsInterrupted()) return false;
  LockHolder hold(lock_);
  LiveSample* s = Find(from);
  if (s == nullptr) return false;
  if (from != to) {
    Change change(*this);
    Unlink(from);
    Link(s, to);
  }
  const double old_weight = s->weight();
  const double old_bytes = old_weight * static_cast<double>(s->size);
  const double old_allocated = old_weight * static_cast<double>(s->allocated);
  s->SetExpected(s->expected() + more_expected);
  const double weight = s->weight();
  if (weight_out != nullptr) *weight_out = weight;
  ChangeLive(*s->row, -1, -old_weight, -old_bytes);
  // The object counts as allocated once, by the weight it has now: others like it became samples
  // only as they grew, and count all of their bytes. What was counted before stays where it was and
  // only the change is added, so that a window that began since sees the growth alone. A change
  // below zero, where the weight fell by more than the block grew, goes where there are bytes.
  s->first_row->sums.allocated_objects += weight - old_weight;
  if (size > s->size) s->allocated += size - s->size;
  const double growth = weight * static_cast<double>(s->allocated) - old_allocated;
  if (growth < 0) s->row->sums.allocated_bytes += growth;
  // Without memory for a row of the new size, the block stays in the old one.
  if (SampleRow* row = RowFor(s->row->context, size)) s->row = row;
  s->size = size;
  if (growth > 0) s->row->sums.allocated_bytes += growth;
  ChangeLive(*s->row, 1, weight, weight * static_cast<double>(size));
  NotePeak();
  return true;
}

SamplerStats Sampler::Stats() const {
  LockHolder hold(lock_);
  SamplerStats s;
  s.interval = rate().interval;
  s.samples = samples_;
  s.live_samples = live_;
  s.live_bytes_estimate = live_bytes_ > 0 ? static_cast<size_t>(live_bytes_) : 0;
  s.peak_bytes_estimate = static_cast<size_t>(peak_bytes_);
  s.contexts = contexts_.size();
  s.dropped = dropped_;
  return s;
}

// Before a row changes it keeps what it had at the last peak, if it has not changed since. So the
// live set at the highest point is known exactly, and a new peak costs one addition.
void Sampler::ChangeLive(SampleRow& row, int samples, double objects, double bytes) {
  SampleSums& s = row.sums;
  if (row.peak != peak_) {
    s.peak_objects = s.live_objects;
    s.peak_bytes = s.live_bytes;
    s.peak_samples = s.live_samples;
    row.peak = peak_;
  }
  s.live_objects += objects;
  s.live_bytes += bytes;
  s.live_samples += samples;
  live_bytes_ += bytes;
}

void Sampler::NotePeak() {
  if (live_bytes_ <= peak_bytes_) return;
  peak_bytes_ = live_bytes_;
  ++peak_;
}

SampleRow* Sampler::FindRow(StackContext* context, size_t bytes) const {
  SampleRow* r = context->rows;
  while (r != nullptr && r->bytes != bytes) r = r->next;
  return r;
}

// Null: no memory.
SampleRow* Sampler::RowOf(const SampleSite* site, size_t size, const uintptr_t* stack,
                          size_t depth) {
  StackContext* context = contexts_.Intern(stack, depth);
  if (contexts_.IsScarce()) stacks_are_scarce_.store(true, std::memory_order_relaxed);
  SampleRow* row = context == nullptr ? nullptr : RowFor(context, size);
  if (row != nullptr && site != nullptr && row->site.key == 0 && row->context == context)
    row->site = *site;
  return row;
}

SampleRow* Sampler::RowFor(StackContext* context, size_t size) {
  const size_t bytes = RoundedSize(size);
  if (SampleRow* r = FindRow(context, bytes)) return r;
  if (rows() >= kMostRows - kOverflowRows) {
    context = contexts_.Overflow();
    if (context == nullptr) return nullptr;
    if (SampleRow* r = FindRow(context, bytes)) return r;
  }
  SampleRow* r = NewRow();
  if (r == nullptr) return nullptr;
  r->context = context;
  r->bytes = bytes;
  r->peak = peak_;
  r->next = context->rows;
  context->rows = r;
  return r;
}

bool Sampler::MakeChunks() {
  if (chunks_ == nullptr)
    chunks_ = static_cast<Chunks*>(arena_.Allocate(sizeof(Chunks), alignof(Chunks)));
  return chunks_ != nullptr;
}

SampleRow* Sampler::NewRow() {
  const size_t n = num_rows_.load(std::memory_order_relaxed);
  if (n == kMostRows) return nullptr;
  if (!MakeChunks()) return nullptr;
  SampleRow*& chunk = chunks_->rows[n / kRowChunk];
  if (chunk == nullptr) {
    chunk =
        static_cast<SampleRow*>(arena_.Allocate(kRowChunk * sizeof(SampleRow), alignof(SampleRow)));
    if (chunk == nullptr) return nullptr;
  }
  num_rows_.store(n + 1, std::memory_order_relaxed);
  auto* row = ::new (chunk + n % kRowChunk) SampleRow();
  row->number = n;
  return row;
}

LiveSample* Sampler::NewLive() {
  if (LiveSample* s = free_live_) {
    free_live_ = s->next.load(std::memory_order_relaxed);
    return s;
  }
  if (live_made_ == kMostLive) return nullptr;
  if (!MakeChunks()) return nullptr;
  LiveSample*& chunk = chunks_->live[live_made_ / kLiveChunk];
  if (chunk == nullptr) {
    chunk = static_cast<LiveSample*>(
        arena_.Allocate(kLiveChunk * sizeof(LiveSample), alignof(LiveSample)));
    if (chunk == nullptr) return nullptr;
  }
  return ::new (chunk + live_made_++ % kLiveChunk) LiveSample();
}

Sampler::Directory* Sampler::MakeDirectory(size_t buckets) {
  void* p = arena_.Allocate(sizeof(Directory) + buckets * sizeof(std::atomic<LiveSample*>), 16);
  if (p == nullptr) return nullptr;
  auto* d = ::new (p) Directory();
  d->shift = 64 - static_cast<size_t>(std::countr_zero(buckets));
  return d;
}

// One bucket a sample. The old directory stays as it is: someone may still be reading it, and the
// number of the change tells them that they read in vain. False only when there is none at all.
bool Sampler::MakeRoom() {
  Directory* old = directory_.load(std::memory_order_relaxed);
  if (old != nullptr && live_ < old->size()) return true;
  Directory* d = MakeDirectory(old == nullptr ? kFirstBuckets : old->size() * 4);
  if (d == nullptr) return old != nullptr;
  Change change(*this);
  for (size_t b = 0; old != nullptr && b < old->size(); ++b) {
    LiveSample* s = old->buckets()[b].load(std::memory_order_relaxed);
    while (s != nullptr) {
      LiveSample* next = s->next.load(std::memory_order_relaxed);
      auto& bucket = d->buckets()[d->BucketOf(s->address.load(std::memory_order_relaxed))];
      s->next.store(bucket.load(std::memory_order_relaxed), std::memory_order_release);
      bucket.store(s, std::memory_order_release);
      s = next;
    }
  }
  directory_.store(d, std::memory_order_release);
  return true;
}

void Sampler::Link(LiveSample* s, uintptr_t address) {
  Directory& d = *directory_.load(std::memory_order_relaxed);
  auto& bucket = d.buckets()[d.BucketOf(address)];
  s->address.store(address, std::memory_order_release);
  s->next.store(bucket.load(std::memory_order_relaxed), std::memory_order_release);
  bucket.store(s, std::memory_order_release);
  if (HasPage(address)) pages_.SetSampled(PageOf(address));
}

// Takes the sample out of its bucket, and the flag off its page if it was the last there.
LiveSample* Sampler::Unlink(uintptr_t address) {
  Directory* d = directory_.load(std::memory_order_relaxed);
  if (d == nullptr) return nullptr;
  LiveSample* found = nullptr;
  bool others = false;
  std::atomic<LiveSample*>* link = &d->buckets()[d->BucketOf(address)];
  while (LiveSample* s = link->load(std::memory_order_relaxed)) {
    const uintptr_t here = s->address.load(std::memory_order_relaxed);
    if (here == address && found == nullptr) {
      found = s;
      link->store(s->next.load(std::memory_order_relaxed), std::memory_order_release);
      continue;
    }
    others |= here >> kPageShift == address >> kPageShift;
    link = &s->next;
  }
  if (found == nullptr) return nullptr;
  found->address.store(0, std::memory_order_release);
  if (!HasPage(address)) return found;
  const Span* span = pages_.SpanOf(PageOf(address));
  const bool stays = span != nullptr && span->is_grouped();
  if (!others && !stays) pages_.ClearSampled(PageOf(address));
  return found;
}

LiveSample* Sampler::Find(uintptr_t address) {
  Directory* d = directory_.load(std::memory_order_relaxed);
  if (d == nullptr) return nullptr;
  LiveSample* s = d->buckets()[d->BucketOf(address)].load(std::memory_order_relaxed);
  while (s != nullptr && s->address.load(std::memory_order_relaxed) != address)
    s = s->next.load(std::memory_order_relaxed);
  return s;
}

}  // namespace strata
