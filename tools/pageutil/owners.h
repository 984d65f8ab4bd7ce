// What lies where on the heap: for each 8 bytes the type of block, size class and allocating stack,
// that was there last, told by the guest library. One lock over all: a system call of the emulated
// program costs more. Sits in tools/pageutil.
#pragma once

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "shared_file.h"

namespace strata::pageutil {

class Owners {
 public:
  explicit Owners(SharedFile& file) : file_(file) {}

  enum class IfKnown { kReplace, kKeep };

  void Allocated(uint64_t block, uint64_t usable, const uint64_t* frames, size_t depth,
                 IfKnown if_known) {
    const std::lock_guard hold(lock_);
    const uint32_t* const known = GrainAt(block);
    if (if_known == IfKnown::kKeep && known != nullptr && IsLiveStart(*known)) return;
    const uint32_t type = TypeOf(usable, frames, depth);
    if (type == 0) return;
    ++file_.area<Type>(kTypeArea)[type - 1].allocations;
    Fill(block, usable, type);
    if (uint32_t* const start = GrainAt(block)) *start |= kStartBit;
  }

  void Freed(uint64_t block) {
    const std::lock_guard hold(lock_);
    uint32_t* const start = GrainAt(block);
    if (start == nullptr || !IsLiveStart(*start)) return;
    const uint32_t type = *start & kTypeMask;
    Fill(block, file_.area<Type>(kTypeArea)[type - 1].size, type | kFreedBit);
    *start |= kStartBit;
  }

 private:
  static bool IsLiveStart(uint32_t grain) {
    return (grain & kStartBit) != 0 && (grain & kFreedBit) == 0 && (grain & kTypeMask) != 0;
  }

  uint32_t* GrainAt(uint64_t address) {
    char* leaf = file_.LeafOf(address);
    if (leaf == nullptr && (leaf = file_.MakeLeaf(address)) == nullptr) return nullptr;
    return file_.part<uint32_t>(leaf, kOwners) + ((address & (kLeafBytes - 1)) >> kGrainShift);
  }

  // A page that lies in one block whole takes one write: large blocks are common, and mostly of
  // such pages.
  void Fill(uint64_t address, uint64_t size, uint32_t value) {
    const uint64_t end = address + size;
    while (address < end) {
      const uint64_t page = address & ~(kPageBytes - 1);
      const uint64_t stop = std::min(end, page + kPageBytes);
      uint32_t* const grains = GrainAt(page);
      if (grains == nullptr) return;
      if (stop - address == kPageBytes) {
        grains[0] = value | kWholePageBit;
      } else {
        if ((grains[0] & kWholePageBit) != 0)
          std::fill_n(grains, kGrainsOfPage, grains[0] & ~(kWholePageBit | kStartBit));
        const auto first = (address - page) >> kGrainShift;
        const auto last = (stop - page + (1 << kGrainShift) - 1) >> kGrainShift;
        std::fill(grains + first, grains + last, value);
      }
      address = stop;
    }
  }

  // The type's number plus one; 0: no room.
  uint32_t TypeOf(uint64_t usable, const uint64_t* frames, size_t depth) {
    std::vector<uint64_t>& key = key_;
    key.assign(frames, frames + depth);
    const uint64_t stack = StackOf(key);
    key.assign({stack, usable});
    const auto known = types_.find(key);
    if (known != types_.end()) return known->second;
    Header* const header = file_.header();
    const uint64_t number = header->types.load(std::memory_order_relaxed);
    if (number == kMostTypes) {
      header->lost.fetch_add(1, std::memory_order_relaxed);
      return 0;
    }
    file_.area<Type>(kTypeArea)[number] = {usable, stack, 0};
    header->types.store(number + 1, std::memory_order_release);
    types_.emplace(key, static_cast<uint32_t>(number + 1));
    return static_cast<uint32_t>(number + 1);
  }

  // Where the stack begins among the frames; 0: no frames, or no room.
  uint64_t StackOf(const std::vector<uint64_t>& frames) {
    if (frames.empty()) return 0;
    const auto known = stacks_.find(frames);
    if (known != stacks_.end()) return known->second;
    Header* const header = file_.header();
    const uint64_t at = std::max<uint64_t>(1, header->frame_words.load(std::memory_order_relaxed));
    if (at + frames.size() + 1 > kMostFrameWords) {
      header->lost.fetch_add(1, std::memory_order_relaxed);
      return 0;
    }
    uint64_t* const words = file_.area<uint64_t>(kFrameArea) + at;
    words[0] = frames.size();
    std::copy(frames.begin(), frames.end(), words + 1);
    header->frame_words.store(at + frames.size() + 1, std::memory_order_release);
    stacks_.emplace(frames, at);
    return at;
  }

  struct Hash {
    size_t operator()(const std::vector<uint64_t>& words) const {
      uint64_t hash = words.size();
      for (const uint64_t word : words) {
        hash = (hash ^ word) * 0x9e37'79b9'7f4a'7c15;
        hash ^= hash >> 29;
      }
      return hash;
    }
  };
  using Numbers = std::vector<uint64_t>;

  SharedFile& file_;
  std::mutex lock_;
  Numbers key_;
  std::unordered_map<Numbers, uint64_t, Hash> stacks_;
  std::unordered_map<Numbers, uint32_t, Hash> types_;
};

}  // namespace strata::pageutil
