// The page heap's regions, and what they hold together: used pages, and pages with memory behind
// them. Decides only; the page heap's lock guards it.
#pragma once

#include "base/intrusive_list.h"
#include "base/metadata_arena.h"
#include "base/units.h"
#include "hugepage/huge_region.h"
#include "hugepage/page_run.h"

namespace strata {

class RegionSet {
 public:
  explicit RegionSet(MetadataArena& arena) : pool_(arena, MetadataUse::kHeap) {}

  Pages used() const { return used_; }
  Pages free_backed() const { return backed_ - used_; }

  HugeRegion* first() const { return regions_.first(); }
  static HugeRegion* Next(const HugeRegion* g) { return IntrusiveList<HugeRegion>::Next(g); }

  // The most fragmented one that can hold n pages; null when none can.
  HugeRegion* Find(Pages n) const {
    HugeRegion* best = nullptr;
    for (HugeRegion* g = first(); g != nullptr; g = Next(g)) {
      if (g->longest() >= n.raw() && (best == nullptr || g->longest() < best->longest())) best = g;
    }
    return best;
  }

  // From a region that Find returned.
  PageRun Take(HugeRegion* g, Pages n) {
    backed_ -= g->backed();
    const PageRun run = g->TryTake(n);
    backed_ += g->backed();
    used_ += n;
    return run;
  }
  void Give(HugeRegion* g, PageRange r) {
    used_ -= r.length;
    g->Give(r);
  }
  bool TryGrow(HugeRegion* g, PageRange r, Pages new_length) {
    backed_ -= g->backed();
    const bool grown = g->TryGrow(r, new_length);
    backed_ += g->backed();
    if (grown) used_ += new_length - r.length;
    return grown;
  }
  void Shrink(HugeRegion* g, PageRange r, Pages new_length) {
    used_ -= r.length - new_length;
    g->Shrink(r, new_length);
  }

  // Ends what DetachForRelease of one of them began.
  void FinishRelease(HugeRegion* g, HugeRange r, HugeRegion::ReleaseResult result) {
    g->FinishRelease(r, result);
    if (result == HugeRegion::ReleaseResult::kDone) backed_ -= PagesOf(r.length);
    if (result == HugeRegion::ReleaseResult::kLost) used_ += PagesOf(r.length);
  }

  // A record that is not among the others yet; null when metadata is out of memory.
  HugeRegion* New() { return pool_.New(); }
  void Delete(HugeRegion* g) { pool_.Delete(g); }
  void Add(HugeRegion* g, HugePageId first) {
    g->Init(first);
    regions_.PushFront(g);
  }
  // One without runs; its record stays until Delete.
  void Remove(HugeRegion* g) {
    regions_.Remove(g);
    backed_ -= g->backed();
  }

 private:
  RecordPool<HugeRegion> pool_;
  IntrusiveList<HugeRegion> regions_;
  Pages used_;
  Pages backed_;
};

}  // namespace strata
