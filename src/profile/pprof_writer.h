// Rows of a profile to a gzipped profile.proto, the format of `go tool pprof`, Pyroscope and Parca:
// stacks as addresses, with the mappings and build ids that tools outside of the process need to
// find names. Knows nothing of samples or the heap. Sits in profile.
//
// Add only fills memory of the writer's own (mmap), so it may be called under a lock; Finish does
// the compression and the writing, and may block on the descriptor. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "profile/mappings.h"
#include "profile/scratch_array.h"
#include "profile/script_frames.h"

namespace strata {

struct PprofValueType {
  const char* type;  // e.g. {"inuse_space", "bytes"}
  const char* unit;
};

struct PprofLabel {
  const char* key;
  const char* text;  // if null, `number` counts
  int64_t number;
  const char* unit;  // of the number; may be null
};

// Where the writer learns of mapped code. By default this process' own.
struct PprofMappings {
  const char* maps = nullptr;  // text of /proc/PID/maps; null: read /proc/self/maps
  size_t maps_size = 0;
  MemoryReader* memory = nullptr;  // null: OwnMemory
  uintptr_t main = 0;              // an address in the main program; 0: ask the kernel
};

struct PprofHeader {
  int64_t time_ns = 0;                 // wall clock, since 1970
  int64_t duration_ns = 0;             // 0: a snapshot
  PprofValueType period_type{};        // e.g. {"space", "bytes"}; type null: none
  int64_t period = 0;                  // e.g. the sampling interval
  const char* comment = nullptr;       // may be null
  const char* process = nullptr;       // its name, which that of its file need not be; or null
  const char* default_type = nullptr;  // the value type shown unless another is asked for; or null
  PprofMappings mappings{};
  const ScriptFrames* scripts = nullptr;  // names the stacks' script frames; or null
};

// Bytes of one protocol buffer message. After a failure everything is dropped and ok() is false.
class ProtoBytes {
 public:
  void Varint(uint64_t value);
  void Number(unsigned field, uint64_t value);  // left out if 0, as proto3 does
  void Bytes(unsigned field, const void* data, size_t size);
  void Message(unsigned field, const ProtoBytes& message) {
    Bytes(field, message.data(), message.size());
    ok_ = ok_ && message.ok_;
  }
  void Clear() { bytes_.Clear(); }
  void Free() { bytes_.Free(); }
  const uint8_t* data() const { return bytes_.data(); }
  size_t size() const { return bytes_.size(); }
  bool ok() const { return ok_; }

 private:
  bool ok_ = true;
  ScratchArray<uint8_t> bytes_;
};

// Hash table from what the owner keeps in an array to its number there, counted from 1.
class IdTable {
 public:
  // The number of the entry with this hash for which same(number) holds; 0 if there is none.
  template <class Same>
  uint32_t Find(uint32_t hash, Same same) const {
    for (uint32_t at = hash; slots_n_ != 0; ++at) {
      const Slot& slot = slots_[at & (slots_n_ - 1)];
      if (slot.id == 0) break;
      if (slot.hash == hash && same(slot.id)) return slot.id;
    }
    return 0;
  }
  bool Insert(uint32_t hash, uint32_t id);

 private:
  struct Slot {
    uint32_t hash;
    uint32_t id;
  };
  bool Grow();

  ScratchArray<Slot> slots_;
  uint32_t slots_n_ = 0;  // a power of two
  uint32_t used_ = 0;
};

class PprofWriter {
 public:
  PprofWriter(int fd, const PprofValueType* types, size_t types_n, const PprofHeader& header);

  // One row: `stack` holds return addresses, innermost first; `values` one number for each type.
  // False: no memory; Finish will then fail too.
  bool Add(const uintptr_t* stack, size_t depth, const int64_t* values, const PprofLabel* labels,
           size_t labels_n);

  // Adds mappings, locations and strings, and writes it all. False: errno says why.
  bool Finish();

 private:
  struct Text {
    size_t at;
    size_t size;
  };

  struct Code {
    Mapping mapping;  // executable
    Mapping first;    // where the same file begins; empty if that is not mapped
    uint64_t id;      // in the profile; 0: not written
    bool used;        // holds a location
  };

  uint64_t String(const char* text) { return String(text, __builtin_strlen(text)); }
  uint64_t String(const char* text, size_t size);
  uint64_t AnyBytes(const char* prefix, const char* text, size_t size);
  uint64_t Location(uintptr_t address);
  void ValueType(unsigned field, const PprofValueType& type);
  void CollectCode(const char* maps, size_t size);
  void PlaceLocations();
  void WriteMappings(uintptr_t main, MemoryReader& memory);
  void WriteMapping(uint64_t id, const Mapping& mapping, const BuildId& build_id);
  void WriteLocations();
  void AddLine(const ScriptFrame& frame);
  void WriteStrings();

  int fd_;
  size_t types_n_;
  PprofMappings source_;
  const ScriptFrames* scripts_;
  bool ok_ = true;
  ProtoBytes out_;
  ProtoBytes part_;           // the message being put together
  ProtoBytes inner_;          // and one inside of it
  ScratchArray<char> chars_;  // of all strings
  ScratchArray<Text> texts_;
  IdTable text_ids_;                   // string → its place in texts_, from 1
  ScratchArray<uintptr_t> locations_;  // addresses, in the order of their first use
  IdTable location_ids_;               // address → its place in locations_, from 1
  ScratchArray<Code> code_;            // by address
  ScratchArray<uint32_t> by_address_;  // places in locations_, in the order of addresses
  struct Function {
    uint64_t name;  // these are strings
    uint64_t file;
  };
  ScratchArray<Function> functions_;      // of script frames
  IdTable function_ids_;                  // name and file → its place in functions_, from 1
  ScratchArray<uint32_t> location_code_;  // for each location: place in code_ from 1, or 0
};

}  // namespace strata
