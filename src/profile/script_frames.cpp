// Frames of interpreted programs, each kept once. See script_frames.h.
#include "profile/script_frames.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "base/errno_keeper.h"
#include "base/units.h"

namespace strata {
namespace {

// Cuts a text between two characters of UTF-8.
std::string_view Cut(std::string_view text, size_t longest) {
  if (text.size() <= longest) return text;
  while (longest != 0 && (static_cast<uint8_t>(text[longest]) & 0xc0) == 0x80) --longest;
  return {text.data(), longest};
}

uint32_t HashOf(const ScriptFrame& frame) {  // FNV-1a
  uint64_t hash = 0xcbf29ce484222325 ^ frame.line;
  for (const std::string_view text : {frame.name, frame.file}) {
    for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
    hash = (hash ^ 0xff) * 0x100000001b3;
  }
  return static_cast<uint32_t>(hash >> 32);
}

}  // namespace

char* ScriptFrames::Base() {
  char* base = base_.load(std::memory_order_acquire);
  if (base != nullptr) return base;
  const ErrnoKeeper keep_errno;
  auto* mapped = static_cast<char*>(map_(kBytes));
  if (mapped == nullptr) return nullptr;
  if (base_.compare_exchange_strong(base, mapped, std::memory_order_acq_rel)) return mapped;
  munmap(mapped, kBytes);
  return base;
}

bool ScriptFrames::Is(const Record& record, uint32_t hash, const ScriptFrame& frame) const {
  const char* text = reinterpret_cast<const char*>(&record + 1);
  return record.hash == hash && record.line == frame.line &&
         std::string_view(text, record.name_size) == frame.name &&
         std::string_view(text + record.name_size, record.file_size) == frame.file;
}

// Its offset; 0: no room.
uint32_t ScriptFrames::Write(char* base, uint32_t hash, const ScriptFrame& frame) {
  const size_t bytes = RoundUp(sizeof(Record) + frame.name.size() + frame.file.size(), kUnit);
  if (used_.load(std::memory_order_relaxed) > kBytes - bytes) return 0;
  const size_t at = used_.fetch_add(bytes, std::memory_order_relaxed);
  if (at > kBytes - bytes) return 0;
  auto* record = reinterpret_cast<Record*>(base + at);
  *record = {hash, frame.line, static_cast<uint32_t>(frame.name.size()),
             static_cast<uint32_t>(frame.file.size())};
  char* text = reinterpret_cast<char*>(record + 1);
  memcpy(text, frame.name.data(), frame.name.size());
  memcpy(text + frame.name.size(), frame.file.data(), frame.file.size());
  return static_cast<uint32_t>(at);
}

uintptr_t ScriptFrames::Intern(const ScriptFrame& whole) {
  char* base = Base();
  if (base == nullptr) return 0;
  const ScriptFrame frame{Cut(whole.name, kLongest), Cut(whole.file, kLongest), whole.line};
  const uint32_t hash = HashOf(frame);
  auto* slots = reinterpret_cast<std::atomic<uint32_t>*>(base);
  uint32_t written = 0;
  constexpr size_t kMostSteps = 64;  // half full it takes two
  for (size_t i = 0; i < kMostSteps; ++i) {
    std::atomic<uint32_t>& slot = slots[(hash + i) % kSlots];
    // acquire, as the release below: who finds the record finds its text.
    uint32_t at = slot.load(std::memory_order_acquire);
    if (at == 0) {
      if (written == 0) written = Write(base, hash, frame);
      if (written == 0) return 0;
      if (slot.compare_exchange_strong(at, written, std::memory_order_acq_rel))
        return kMark | written;
    }
    if (Is(*reinterpret_cast<const Record*>(base + at), hash, frame)) return kMark | at;
  }
  return 0;
}

bool ScriptFrames::Find(uintptr_t frame, ScriptFrame* out) const {
  const char* base = base_.load(std::memory_order_acquire);
  if (base == nullptr || !IsScriptFrame(frame)) return false;
  const size_t at = frame & ~kMark;
  const size_t end = std::min(used_.load(std::memory_order_relaxed), kBytes);
  if (at < kRecordsAt || at % kUnit != 0 || at > end || end - at < sizeof(Record)) return false;
  const auto* record = reinterpret_cast<const Record*>(base + at);
  const size_t left = end - at - sizeof(Record);
  if (record->name_size > left || record->file_size > left - record->name_size) return false;
  const char* text = reinterpret_cast<const char*>(record + 1);
  const ScriptFrame found{
      {text, record->name_size}, {text + record->name_size, record->file_size}, record->line};
  if (HashOf(found) != record->hash) return false;
  *out = found;
  return true;
}

size_t ScriptFrames::bytes() const {
  if (base_.load(std::memory_order_relaxed) == nullptr) return 0;
  // The slots are hit at random.
  return RoundUp(std::min(used_.load(std::memory_order_relaxed), kBytes), kNativePageSize);
}

}  // namespace strata
