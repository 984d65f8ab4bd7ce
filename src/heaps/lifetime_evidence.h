// From the sampler's sums to the evidence that lifetime/site_learner.h decides by: of each stack
// and size, how many samples outlived what is usual for their size. Sits in heaps, between the two.
//
// Usual is relative: an object lasts if it outlives twice the median of those of its size that
// died. So a burst of 50 ms and a session of ten seconds each have their survivors, and a program
// all of whose objects live equally long has none. What died long ago counts less and less, so that
// a program may change. Time in which nobody looked is none in which objects aged.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lifetime/site_learner.h"
#include "profile/sampler.h"
#include "profile/scratch_array.h"

namespace strata {

// Used by one thread at a time.
class LifetimeEvidence {
 public:
  // What died counts half after this.
  static constexpr double kHalfLifeNs = 10e9;
  // A process in which something is learned looks more often; after more than this it was stopped
  // meanwhile, or the clock jumped.
  static constexpr uint64_t kMostBetweenLooksNs = 30'000'000'000;

  // Looks at the samples. False: no memory, or there are none.
  bool Gather(const Sampler& sampler, uint64_t now_ns);
  SiteEvidence* rows() { return rows_.data(); }
  size_t size() const { return rows_.size(); }
  // Samples of a row that died, all of them, however long ago.
  double DeathsOf(size_t row) const { return by_row_[row].all.seen; }
  // Where what is usual for a size ends, of its plain class; known once some of it has died.
  double usual_ns(SizeClass c) const { return usual_ns_[Raw(c)]; }
  bool knows_usual(SizeClass c) const;
  // Rows of a size say nothing as long as this is false of it.
  void SetCounts(SizeClass c, bool counts) { is_ignored_[Raw(c)] = !counts; }
  // From the next look on, what is usual ends no sooner than this: where most of a size is known to
  // live longer than what has died of it so far.
  void SetLeastUsual(SizeClass c, double ns) { least_ns_[Raw(c)] = ns; }
  // That the arrays take.
  size_t bytes() const {
    return by_size_.mapped_bytes() + histograms_.mapped_bytes() + by_row_.mapped_bytes() +
           rows_.mapped_bytes();
  }

 private:
  // Deaths so far, at the last look, and with what died before worth less.
  struct Deaths {
    double seen = 0;
    double lately = 0;
    void Look(double now, double keeps) {
      const double more = now - seen;
      lately = lately * keeps + (more > 0 ? more : 0);
      seen = now;
    }
  };
  struct RowDeaths {
    Deaths all, beyond;
  };
  struct SizeDeaths {
    Deaths at[LifetimeHistogram::kBuckets];
  };

  bool MakeRoom(size_t rows);
  double NoteTime(uint64_t now_ns);
  uint64_t AgeOf(uint64_t born_ns, uint64_t now_ns) const;
  void FindUsual(const Sampler& sampler, double keeps);
  void NoteRow(const SampleRow& row, const SampleSums& sums, double keeps);

  ScratchArray<SizeDeaths> by_size_;
  ScratchArray<LifetimeHistogram> histograms_;
  ScratchArray<RowDeaths> by_row_;
  ScratchArray<SiteEvidence> rows_;
  double usual_ns_[kNumSizes + 1] = {};  // where what is usual ends
  double least_ns_[kNumSizes + 1] = {};  // and no sooner than this
  bool is_ignored_[kNumSizes + 1] = {};
  uint64_t looked_ns_ = 0;
  // The last jump: objects aged from aged_from_ns_ until gap_began_ns_, and do from jumped_ns_ on.
  // After one back, what was before is not known.
  uint64_t aged_from_ns_ = 0, gap_began_ns_ = 0, jumped_ns_ = 0;
};

}  // namespace strata
