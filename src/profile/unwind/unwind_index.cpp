// Keeping the tables in step with what is mapped, and replacing the index under the walkers. See
// unwind_index.h.
#include "profile/unwind/unwind_index.h"

#include <string.h>

#include <algorithm>
#include <new>

#include "base/units.h"

namespace strata {

CodeModule* UnwindIndex::ModuleAt(uintptr_t pc) const {
  CodeModule* m = std::upper_bound(
      modules_, modules_ + count_, pc,
      [](uintptr_t address, const CodeModule& module) { return address < module.begin; });
  return m == modules_ || pc >= m[-1].end ? nullptr : m - 1;
}

FoundRule UnwindIndex::FindSlow(uintptr_t pc) const {
  if (pc >= kAddressEnd) return {};
  const CodeModule* m = ModuleAt(pc);
  if (m == nullptr) return {};
  if (!m->read) return {UnwindRule(), false, true};
  const UnwindRule rule = m->table != nullptr ? m->table->Find(pc - m->begin) : UnwindRule();
  const size_t slot = SlotOf(pc);
  const uint32_t page = 1u << slot / kWordsPerPage;
  if ((cache_pages_.load(std::memory_order_relaxed) & page) == 0)
    cache_pages_.fetch_or(page, std::memory_order_relaxed);
  cache_[slot].store(uint64_t{pc >> kCacheBits} << UnwindRule::kBits | rule.bits(),
                     std::memory_order_relaxed);
  return {rule, true};
}

// relaxed: only a number; a refresh that misses the last meeting makes the table at the next.
void UnwindIndex::NoteMeeting(CodeModule& module) const {
  std::atomic_ref<uint32_t> met(module.met);
  if (met.load(std::memory_order_relaxed) >= kMeetings) return;
  if (met.fetch_add(1, std::memory_order_relaxed) + 1 >= kMeetings)
    wants_table_.store(true, std::memory_order_relaxed);
}

// A walker's half of the handshake with FreeReplaced: it announces the pin, then looks again. Both
// are seq_cst, as are the replacing of current_ and the look at the pins there: so either the
// walker sees the new index, or the other side sees the pin.
UnwindIndex* UnwindTables::PinCurrent() {
  for (;;) {
    UnwindIndex* index = current_.load(std::memory_order_acquire);
    if (index == nullptr) return nullptr;
    index->pins_.fetch_add(1, std::memory_order_seq_cst);
    if (STRATA_LIKELY(current_.load(std::memory_order_seq_cst) == index)) return index;
    index->pins_.fetch_sub(1, std::memory_order_release);
  }
}

void* UnwindTables::Map(size_t bytes) {
  void* p = memory_.map(bytes);
  if (p != nullptr) bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return p;
}

bool UnwindTables::IsUsed(const UnwindTable* table) const {
  for (const UnwindIndex& index : indexes_) {
    if (index.state_ == UnwindIndex::State::kFree) continue;
    for (size_t i = 0; i < index.count_; ++i) {
      if (index.modules_[i].table == table) return true;
    }
  }
  return false;
}

void UnwindTables::FreeTable(UnwindTable* table) {
  if (table == nullptr || IsUsed(table)) return;
  bytes_.fetch_sub(table->bytes(), std::memory_order_relaxed);
  UnwindTable::Delete(table, memory_);
}

void UnwindTables::FreeReplaced() {
  for (UnwindIndex& index : indexes_) {
    if (index.state_ != UnwindIndex::State::kReplaced) continue;
    // seq_cst: see PinCurrent. It also acquires what the last walker released.
    if (index.pins_.load(std::memory_order_seq_cst) != 0) continue;
    index.state_ = UnwindIndex::State::kFree;
    for (size_t i = 0; i < index.count_; ++i) FreeTable(index.modules_[i].table);
    if (index.bytes_ != 0) memory_.unmap(index.modules_, index.bytes_);
    bytes_.fetch_sub(index.bytes_, std::memory_order_relaxed);
    index.modules_ = nullptr;
    index.count_ = index.bytes_ = 0;
  }
}

UnwindIndex* UnwindTables::FreeIndex() {
  for (UnwindIndex& index : indexes_) {
    // A walker that lost the race in PinCurrent may have a free index pinned for a moment: it reads
    // nothing of it.
    if (index.state_ == UnwindIndex::State::kFree) return &index;
  }
  return nullptr;
}

bool UnwindTables::Publish(const ScratchArray<CodeModule>& list) {
  UnwindIndex* index = FreeIndex();
  if (index == nullptr) return false;
  if (index->cache_ == nullptr) {
    index->cache_ = static_cast<std::atomic<uint64_t>*>(memory_.map(UnwindIndex::kCacheBytes));
    if (index->cache_ == nullptr) return false;
  }
  const size_t bytes = RoundUp(list.size() * sizeof(CodeModule), kNativePageSize);
  auto* modules = bytes != 0 ? static_cast<CodeModule*>(Map(bytes)) : nullptr;
  if (bytes != 0 && modules == nullptr) return false;
  std::copy_n(list.data(), list.size(), modules);
  for (size_t i = 0; i < UnwindIndex::kCacheBytes / sizeof(uint64_t); ++i) {
    // Written only where needed: a page of the cache that nobody used stays unbacked.
    if (index->cache_[i].load(std::memory_order_relaxed) != 0)
      index->cache_[i].store(0, std::memory_order_relaxed);
  }
  index->wants_table_.store(false, std::memory_order_relaxed);
  index->modules_ = modules;
  index->count_ = list.size();
  index->bytes_ = bytes;
  index->state_ = UnwindIndex::State::kInUse;
  UnwindIndex* before = current_.exchange(index, std::memory_order_seq_cst);
  if (before != nullptr) before->state_ = UnwindIndex::State::kReplaced;
  published_.fetch_add(1, std::memory_order_relaxed);
  FreeReplaced();
  return true;
}

namespace {

// Whether the program header's word that there is code at `range` is borne out: an executable
// mapping of the same file lies at its begin, or one of no file, as where a program has moved its
// own code to hugepages.
bool IsMappedCode(const CodeRange& range, const Mapping& file, const ScratchArray<Mapping>& all) {
  const Mapping* end = all.data() + all.size();
  const Mapping* m = std::upper_bound(
      all.data(), end, range.begin,
      [](uintptr_t address, const Mapping& mapping) { return address < mapping.end; });
  return m != end && m->start <= range.begin && m->executable &&
         (m->inode == 0 || (m->inode == file.inode && m->device == file.device));
}

bool IsVdso(const Mapping& m) {
  constexpr char kName[] = "[vdso]";
  return m.path_length == sizeof(kName) - 1 && memcmp(m.path, kName, sizeof(kName) - 1) == 0;
}

}  // namespace

// `bases` runs in parallel to `list`: where the first byte of each file is mapped.
bool UnwindTables::ListModules(const char* maps, size_t size, MemoryReader& memory,
                               ScratchArray<CodeModule>& list, ScratchArray<uintptr_t>& bases) {
  ScratchArray<Mapping> all;
  MapsParser parser(maps, size);
  Mapping mapping;
  uintptr_t end = 0;
  while (parser.Next(&mapping)) {
    if (mapping.start < end) continue;  // the kernel's list is sorted
    end = mapping.end;
    if (!all.Append(mapping)) return false;
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const Mapping& m = all[i];
    ElfCode code;
    if (!m.readable || m.file_offset != 0 || (m.inode == 0 && !IsVdso(m))) continue;
    if (!ReadElfCode(m.start, memory, &code)) continue;
    for (size_t k = 0; k < code.range_count; ++k) {
      const CodeRange& range = code.ranges[k];
      const bool follows = list.size() == 0 || list[list.size() - 1].end <= range.begin;
      if (!follows || !IsMappedCode(range, m, all)) continue;
      const CodeModule module{range.begin, range.end, nullptr, m.device, m.inode, code.fingerprint};
      if (!list.Append(module) || !bases.Append(m.start)) return false;
    }
  }
  return true;
}

// The table of a file that has none yet. Another thread may unmap the file or put another in its
// place at any time, and the table would come back with it: false if it is not there before and
// after, or no memory.
bool UnwindTables::MakeTable(uintptr_t base, MemoryReader& memory, ScratchArray<uint8_t>& bytes,
                             CodeModule* module, bool* out_of_memory) {
  ElfCode before;
  ElfCode after;
  EhFrame section;
  const auto is_there = [&](ElfCode* code) {
    return ReadElfCode(base, memory, code) && code->fingerprint == module->fingerprint;
  };
  if (!is_there(&before)) return false;
  *out_of_memory = before.frames_size != 0 && !CopyFrames(before, memory, bytes, &section);
  if (*out_of_memory || !is_there(&after)) return false;
  module->read = true;
  if (before.frames_size == 0) return true;
  size_t entries;
  module->table = UnwindTable::Make(section, module->begin, module->end, memory_, &entries);
  *out_of_memory = module->table == nullptr;
  if (*out_of_memory) return false;
  bytes_.fetch_add(module->table->bytes(), std::memory_order_relaxed);
  return true;
}

// Takes over what the current index has and makes the tables that `which` asks for; leaves out what
// has gone meanwhile. `changes`: files and tables that are new. On failure those made stay in
// `list`, for the caller to free.
bool UnwindTables::FillTables(MemoryReader& memory, ScratchArray<CodeModule>& list,
                              const ScratchArray<uintptr_t>& bases, TablesFor which,
                              size_t* changes) {
  const UnwindIndex* current = current_.load(std::memory_order_relaxed);
  ScratchArray<uint8_t> bytes;
  size_t kept = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    CodeModule& module = list[kept] = list[i];
    CodeModule* known = nullptr;
    for (size_t k = 0; current != nullptr && known == nullptr && k < current->count_; ++k) {
      if (current->modules_[k].SameCode(module)) known = &current->modules_[k];
    }
    if (known == nullptr) {
      ++*changes;
    } else {
      module.table = known->table;
      module.read = known->read;
      module.met = std::atomic_ref<uint32_t>(known->met).load(std::memory_order_relaxed);
    }
    const bool wanted = which == TablesFor::kAllCode || module.met >= UnwindIndex::kMeetings;
    bool out_of_memory = false;
    if (module.read || !wanted) {
      // Stays as it is.
    } else if (MakeTable(bases[i], memory, bytes, &module, &out_of_memory)) {
      ++*changes;
    } else {
      if (out_of_memory) return false;
      continue;
    }
    ++kept;
  }
  list.Shrink(kept);
  return true;
}

bool UnwindTables::RefreshFrom(const char* maps, size_t size, MemoryReader& memory,
                               TablesFor which) {
  FreeReplaced();
  ScratchArray<CodeModule> list;
  ScratchArray<uintptr_t> bases;
  if (!ListModules(maps, size, memory, list, bases)) return false;
  size_t changes = 0;
  const UnwindIndex* current = current_.load(std::memory_order_relaxed);
  bool ok = FillTables(memory, list, bases, which, &changes);
  if (ok && changes == 0 && current != nullptr && current->count_ == list.size()) return true;
  ok = ok && Publish(list);
  if (ok) return true;
  for (size_t i = 0; i < list.size(); ++i) FreeTable(list[i].table);
  return false;
}

void UnwindTables::ForgetOthersInChild() {
  ::new (&lock_) Lock(LockRank::kUnwind);
  const UnwindIndex* current = current_.load(std::memory_order_relaxed);
  for (UnwindIndex& index : indexes_) {
    // The fork may have come between the two stores of Publish.
    if (&index != current && index.state_ == UnwindIndex::State::kInUse)
      index.state_ = UnwindIndex::State::kReplaced;
    index.pins_.store(0, std::memory_order_relaxed);
  }
}

}  // namespace strata
