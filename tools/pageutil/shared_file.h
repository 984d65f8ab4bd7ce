// The shared file as the plugin sees it: mapped whole, with leaves made on first use. See layout.h.
// Sits in tools/pageutil.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <mutex>

#include "layout.h"

namespace strata::pageutil {

constexpr uint64_t RoundToMebibyte(uint64_t n) { return (n + 0xfffff) & ~uint64_t{0xfffff}; }

class SharedFile {
 public:
  SharedFile() = default;
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  // False: errno says why.
  bool Open(const char* path, unsigned unit_shift) {
    const int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return false;
    Header plan{};
    const uint64_t size = Lay(&plan, unit_shift);
    if (ftruncate(file, static_cast<off_t>(size)) != 0) return false;
    void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    close(file);
    if (p == MAP_FAILED) return false;
    // A forked child is not measured, and must not write here whatever it does.
    base_ = static_cast<char*>(p);
    header()->unit_shift = unit_shift;
    memcpy(header()->areas, plan.areas, sizeof(plan.areas));
    memcpy(header()->leaf_bits, plan.leaf_bits, sizeof(plan.leaf_bits));
    header()->leaf_stride = plan.leaf_stride;
    return true;
  }

  Header* header() const { return reinterpret_cast<Header*>(base_); }
  template <class T>
  T* area(Area which) const {
    return reinterpret_cast<T*>(base_ + header()->areas[which]);
  }
  template <class T>
  T* part(char* leaf, LeafPart which) const {
    return reinterpret_cast<T*>(leaf + header()->leaf_bits[which]);
  }

  // Null: there is none yet.
  char* LeafOf(uint64_t address) const {
    const uint64_t root = address >> kLeafShift;
    return root < kRoots ? leaves_[root].load(std::memory_order_acquire) : nullptr;
  }
  // Null: no address of the program's, or there are too many leaves.
  char* MakeLeaf(uint64_t address) {
    const uint64_t root = address >> kLeafShift;
    if (root >= kRoots) return nullptr;
    const std::lock_guard hold(making_);
    if (char* known = leaves_[root].load(std::memory_order_relaxed)) return known;
    const uint64_t number = header()->leaves.load(std::memory_order_relaxed);
    if (number == kMostLeaves) {
      header()->lost.fetch_add(1, std::memory_order_relaxed);
      return nullptr;
    }
    char* leaf = area<char>(kLeafArea) + number * header()->leaf_stride;
    roots_[number] = root;
    area<uint32_t>(kRootArea)[root] = static_cast<uint32_t>(number + 1);
    leaves_[root].store(leaf, std::memory_order_release);
    header()->leaves.store(number + 1, std::memory_order_release);
    return leaf;
  }
  // Of the leaf with this number: the address that it begins at.
  uint64_t AddressOf(uint64_t number) const { return roots_[number] << kLeafShift; }

 private:
  static uint64_t Lay(Header* plan, unsigned unit_shift) {
    const uint64_t bits = kLeafBytes >> unit_shift >> 3;
    uint64_t at = 0;
    const auto take = [&at](uint64_t bytes) {
      const uint64_t begin = at;
      at += RoundToMebibyte(bytes);
      return begin;
    };
    plan->leaf_bits[kTouchedNow] = take(bits);
    plan->leaf_bits[kPagesNow] = take(kLeafBytes >> kPageShift >> 3);
    plan->leaf_bits[kTouchedEver] = take(bits);
    plan->leaf_bits[kOwners] = take((kLeafBytes >> kGrainShift) * sizeof(uint32_t));
    plan->leaf_stride = at;
    at = 0;
    take(sizeof(Header));
    plan->areas[kRootArea] = take(kRoots * sizeof(uint32_t));
    plan->areas[kEpochArea] = take(kMostEpochs * sizeof(Epoch));
    plan->areas[kRecordArea] = take(kMostRecords * sizeof(uint64_t));
    plan->areas[kEventArea] = take(kMostEvents * sizeof(Event));
    plan->areas[kTextArea] = take(kMostText);
    plan->areas[kTypeArea] = take(kMostTypes * sizeof(Type));
    plan->areas[kFrameArea] = take(kMostFrameWords * sizeof(uint64_t));
    plan->areas[kLeafArea] = take(kMostLeaves * plan->leaf_stride);
    return at;
  }

  char* base_ = nullptr;
  std::mutex making_;
  uint64_t roots_[kMostLeaves] = {};
  std::atomic<char*> leaves_[kRoots] = {};
};

}  // namespace strata::pageutil
