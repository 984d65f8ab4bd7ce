// profile.proto without a protobuf library. Field numbers are those of
// github.com/google/pprof/proto/profile.proto. See pprof_writer.h.
#include "profile/pprof_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>

#include "base/errno_keeper.h"
#include "profile/gzip.h"

namespace strata {
namespace {

// Profile
constexpr unsigned kSampleType = 1, kSample = 2, kMapping = 3, kLocation = 4, kFunction = 5,
                   kStringTable = 6, kTimeNanos = 9, kDurationNanos = 10, kPeriodType = 11,
                   kPeriod = 12, kComment = 13, kDefaultSampleType = 14;
// ValueType
constexpr unsigned kType = 1, kUnit = 2;
// Sample and its Label
constexpr unsigned kLocationId = 1, kValue = 2, kLabel = 3;
constexpr unsigned kKey = 1, kStr = 2, kNum = 3, kNumUnit = 4;
// Mapping, Location
constexpr unsigned kId = 1;
constexpr unsigned kStart = 2, kLimit = 3, kOffset = 4, kFilename = 5, kBuildId = 6;
constexpr unsigned kMappingId = 2, kAddress = 3, kLine = 4;
// Line, Function
constexpr unsigned kFunctionId = 1, kLineNumber = 2;
constexpr unsigned kName = 2, kFile = 4;

constexpr unsigned kWireVarint = 0, kWireBytes = 2;

uint32_t HashOf(const char* text, size_t size) {  // FNV-1a
  uint32_t hash = 2166136261u;
  for (size_t i = 0; i < size; ++i) hash = (hash ^ static_cast<uint8_t>(text[i])) * 16777619u;
  return hash;
}

uint32_t HashOf(uintptr_t address) {
  return static_cast<uint32_t>((uint64_t{address} * 0x9e3779b97f4a7c15u) >> 32);
}

// RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.
bool IsUtf8(const char* text, size_t size) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  for (size_t i = 0; i < size;) {
    const uint8_t first = byte(i);
    const size_t more = first < 0x80                    ? 0
                        : first >= 0xc2 && first < 0xe0 ? 1
                        : first >= 0xe0 && first < 0xf0 ? 2
                        : first >= 0xf0 && first < 0xf5 ? 3
                                                        : size;
    if (more >= size - i) return false;
    uint32_t code = more == 0 ? first : first & (0x3fu >> more);
    for (size_t k = 1; k <= more; ++k) {
      if ((byte(i + k) & 0xc0) != 0x80) return false;
      code = code << 6 | (byte(i + k) & 0x3f);
    }
    if ((more == 2 && code < 0x800) || (more == 3 && code < 0x10000) || code > 0x10ffff ||
        (code >= 0xd800 && code < 0xe000)) {
      return false;
    }
    i += 1 + more;
  }
  return true;
}

}  // namespace

void ProtoBytes::Varint(uint64_t value) {
  uint8_t bytes[10];
  size_t n = 0;
  for (; value >= 0x80; value >>= 7) bytes[n++] = static_cast<uint8_t>(value | 0x80);
  bytes[n++] = static_cast<uint8_t>(value);
  ok_ = ok_ && bytes_.Append(bytes, n);
}

void ProtoBytes::Number(unsigned field, uint64_t value) {
  if (value == 0) return;
  Varint(field << 3 | kWireVarint);
  Varint(value);
}

void ProtoBytes::Bytes(unsigned field, const void* data, size_t size) {
  Varint(field << 3 | kWireBytes);
  Varint(size);
  ok_ = ok_ && bytes_.Append(static_cast<const uint8_t*>(data), size);
}

bool IdTable::Insert(uint32_t hash, uint32_t id) {
  if (used_ >= slots_n_ / 2 && !Grow()) return false;
  uint32_t at = hash & (slots_n_ - 1);
  while (slots_[at].id != 0) at = (at + 1) & (slots_n_ - 1);
  slots_[at] = {hash, id};
  ++used_;
  return true;
}

// Doubles the table in place: what moves goes to a copy first.
bool IdTable::Grow() {
  const uint32_t old_n = slots_n_;
  const uint32_t new_n = old_n == 0 ? 1024 : old_n * 2;
  if (new_n == 0) return false;
  ScratchArray<Slot> old;
  if (!old.Append(slots_.data(), old_n) || !slots_.Reserve(new_n)) return false;
  slots_n_ = new_n;
  used_ = 0;
  for (uint32_t i = 0; i < new_n; ++i) slots_[i] = {};
  for (uint32_t i = 0; i < old_n; ++i) {
    if (old[i].id != 0) Insert(old[i].hash, old[i].id);
  }
  return true;
}

PprofWriter::PprofWriter(int fd, const PprofValueType* types, size_t types_n,
                         const PprofHeader& header)
    : fd_(fd), types_n_(types_n), source_(header.mappings), scripts_(header.scripts) {
  String("");  // number 0 has to be the empty one
  for (size_t i = 0; i < types_n; ++i) ValueType(kSampleType, types[i]);
  out_.Number(kTimeNanos, static_cast<uint64_t>(header.time_ns));
  out_.Number(kDurationNanos, static_cast<uint64_t>(header.duration_ns));
  if (header.period_type.type != nullptr) ValueType(kPeriodType, header.period_type);
  out_.Number(kPeriod, static_cast<uint64_t>(header.period));
  if (header.comment != nullptr) out_.Number(kComment, String(header.comment));
  if (header.process != nullptr)
    out_.Number(kComment, AnyBytes("process ", header.process, strlen(header.process)));
  if (header.default_type != nullptr) out_.Number(kDefaultSampleType, String(header.default_type));
}

void PprofWriter::ValueType(unsigned field, const PprofValueType& type) {
  part_.Clear();
  part_.Number(kType, String(type.type));
  part_.Number(kUnit, String(type.unit));
  out_.Message(field, part_);
}

uint64_t PprofWriter::String(const char* text, size_t size) {
  const uint32_t hash = HashOf(text, size);
  uint32_t id = text_ids_.Find(hash, [&](uint32_t i) {
    const Text& t = texts_[i - 1];
    return t.size == size && (size == 0 || memcmp(chars_.data() + t.at, text, size) == 0);
  });
  if (id == 0) {
    const Text t{chars_.size(), size};
    id = static_cast<uint32_t>(texts_.size() + 1);
    ok_ = ok_ && chars_.Append(text, size) && texts_.Append(t) && text_ids_.Insert(hash, id);
  }
  return id - 1;
}

uint64_t PprofWriter::Location(uintptr_t address) {
  const uint32_t hash = HashOf(address);
  uint32_t id = location_ids_.Find(hash, [&](uint32_t i) { return locations_[i - 1] == address; });
  if (id == 0) {
    id = static_cast<uint32_t>(locations_.size() + 1);
    ok_ = ok_ && locations_.Append(address) && location_ids_.Insert(hash, id);
  }
  return id;
}

bool PprofWriter::Add(const uintptr_t* stack, size_t depth, const int64_t* values,
                      const PprofLabel* labels, size_t labels_n) {
  part_.Clear();
  inner_.Clear();
  // A return address may be the next function's first: one before it is inside of the call.
  for (size_t i = 0; i < depth; ++i) {
    const bool is_script = scripts_ != nullptr && ScriptFrames::IsScriptFrame(stack[i]);
    const bool is_call = stack[i] != 0 && !is_script;
    inner_.Varint(Location(is_call ? stack[i] - 1 : stack[i]));
  }
  if (depth != 0) part_.Message(kLocationId, inner_);
  inner_.Clear();
  for (size_t i = 0; i < types_n_; ++i) inner_.Varint(static_cast<uint64_t>(values[i]));
  part_.Message(kValue, inner_);
  for (size_t i = 0; i < labels_n; ++i) {
    inner_.Clear();
    inner_.Number(kKey, String(labels[i].key));
    if (labels[i].text != nullptr) {
      inner_.Number(kStr, String(labels[i].text));
    } else {
      inner_.Number(kNum, static_cast<uint64_t>(labels[i].number));
      if (labels[i].unit != nullptr) inner_.Number(kNumUnit, String(labels[i].unit));
    }
    part_.Message(kLabel, inner_);
  }
  out_.Message(kSample, part_);
  ok_ = ok_ && out_.ok();
  return ok_;
}

// A file name may hold any bytes, a string of the profile only UTF-8: some readers refuse the whole
// profile over it.
uint64_t PprofWriter::AnyBytes(const char* prefix, const char* text, size_t size) {
  ScratchArray<char> copy;
  ok_ = ok_ && copy.Append(prefix, strlen(prefix)) && copy.Append(text, size);
  if (!ok_) return 0;
  if (!IsUtf8(copy.data(), copy.size())) {
    for (size_t i = 0; i < copy.size(); ++i) {
      if ((copy[i] & 0x80) != 0) copy[i] = '?';
    }
  }
  return String(copy.data(), copy.size());
}

void PprofWriter::WriteMapping(uint64_t id, const Mapping& mapping, const BuildId& build_id) {
  char hex[2 * BuildId::kMaxSize];
  for (size_t i = 0; i < build_id.size; ++i) {
    hex[2 * i] = "0123456789abcdef"[build_id.bytes[i] >> 4];
    hex[2 * i + 1] = "0123456789abcdef"[build_id.bytes[i] & 15];
  }
  part_.Clear();
  part_.Number(kId, id);
  part_.Number(kStart, mapping.start);
  part_.Number(kLimit, mapping.end);
  part_.Number(kOffset, mapping.file_offset);
  // Code in no file (made by a JIT compiler) is called as perf calls it; pprof knows the name.
  part_.Number(kFilename, mapping.path_length != 0 ? AnyBytes("", mapping.path, mapping.path_length)
                                                   : String("//anon"));
  part_.Number(kBuildId, String(hex, 2 * build_id.size));
  out_.Message(kMapping, part_);
  // What lies at the path now may be another file.
  if (mapping.deleted) {
    out_.Number(kComment,
                AnyBytes("deleted or replaced while mapped: ", mapping.path, mapping.path_length));
  }
}

void PprofWriter::CollectCode(const char* maps, size_t size) {
  MapsParser parser(maps, size);
  Mapping mapping;
  Mapping first;  // the last one seen that begins a file
  while (parser.Next(&mapping)) {
    if (mapping.file_offset == 0 && mapping.path_length != 0) first = mapping;
    if (!mapping.executable) continue;
    const bool known = first.path_length != 0 && first.SameFile(mapping);
    ok_ = ok_ && code_.Append(Code{mapping, known ? first : Mapping(), 0, false});
  }
  std::sort(code_.data(), code_.data() + code_.size(),
            [](const Code& a, const Code& b) { return a.mapping.start < b.mapping.start; });
}

void PprofWriter::PlaceLocations() {
  const size_t n = locations_.size();
  if (!by_address_.Reserve(n) || !location_code_.Reserve(n)) {
    ok_ = false;
    return;
  }
  for (size_t i = 0; i < n; ++i) ok_ = ok_ && by_address_.Append(static_cast<uint32_t>(i));
  location_code_.Grow(n);
  std::sort(by_address_.data(), by_address_.data() + n,
            [&](uint32_t a, uint32_t b) { return locations_[a] < locations_[b]; });
  size_t c = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint32_t location = by_address_[i];
    const uintptr_t address = locations_[location];
    while (c < code_.size() && code_[c].mapping.end <= address) ++c;
    const bool inside = c < code_.size() && code_[c].mapping.start <= address;
    location_code_[location] = inside ? static_cast<uint32_t>(c + 1) : 0;
    if (inside) code_[c].used = true;
  }
}

void PprofWriter::WriteMappings(uintptr_t main, MemoryReader& memory) {
  uint64_t next_id = 1;
  const auto write = [&](Code& code) {
    code.id = next_id++;
    const bool known = code.first.path_length != 0;
    WriteMapping(code.id, code.mapping, known ? ReadBuildId(code.first, memory) : BuildId());
  };
  const auto holds = [](const Mapping& m, uintptr_t a) { return m.start <= a && a < m.end; };
  // Tools take the first mapping for the program.
  for (size_t i = 0; i < code_.size() && next_id == 1; ++i) {
    if (holds(code_[i].mapping, main) || holds(code_[i].first, main)) write(code_[i]);
  }
  for (size_t i = 0; i < code_.size(); ++i) {
    if (code_[i].used && code_[i].id == 0) write(code_[i]);
  }
}

// To the location in part_: the frame's function, which is written the first time, and its line.
void PprofWriter::AddLine(const ScriptFrame& frame) {
  const Function function{AnyBytes("", frame.name.data(), frame.name.size()),
                          AnyBytes("", frame.file.data(), frame.file.size())};
  const uint32_t hash = HashOf(static_cast<uintptr_t>(function.name << 32 | function.file));
  uint32_t id = function_ids_.Find(hash, [&](uint32_t i) {
    return functions_[i - 1].name == function.name && functions_[i - 1].file == function.file;
  });
  if (id == 0) {
    id = static_cast<uint32_t>(functions_.size() + 1);
    ok_ = ok_ && functions_.Append(function) && function_ids_.Insert(hash, id);
    inner_.Clear();
    inner_.Number(kId, id);
    inner_.Number(kName, function.name);  // and no system name: go's pprof would demangle <module>
    inner_.Number(kFile, function.file);
    out_.Message(kFunction, inner_);
  }
  inner_.Clear();
  inner_.Number(kFunctionId, id);
  inner_.Number(kLineNumber, frame.line);
  part_.Message(kLine, inner_);
}

void PprofWriter::WriteLocations() {
  for (size_t i = 0; i < locations_.size(); ++i) {
    const uint32_t code = location_code_[i];
    part_.Clear();
    part_.Number(kId, i + 1);
    part_.Number(kMappingId, code == 0 ? 0 : code_[code - 1].id);
    ScriptFrame script;
    if (scripts_ != nullptr && scripts_->Find(locations_[i], &script)) {
      AddLine(script);
    } else {
      part_.Number(kAddress, locations_[i]);
    }
    out_.Message(kLocation, part_);
  }
}

void PprofWriter::WriteStrings() {
  for (size_t i = 0; i < texts_.size(); ++i)
    out_.Bytes(kStringTable, chars_.data() + texts_[i].at, texts_[i].size);
}

bool PprofWriter::Finish() {
  const int saved = errno;
  ScratchArray<char> own_maps;
  const char* maps = source_.maps;
  size_t maps_size = source_.maps_size;
  if (maps == nullptr) {
    ok_ = ok_ && ReadOwnMaps(own_maps);
    maps = own_maps.data();
    maps_size = own_maps.size();
  }
  OwnMemory own_memory;
  if (ok_) {
    CollectCode(maps, maps_size);
    PlaceLocations();
  }
  if (ok_) {
    WriteMappings(source_.main != 0 ? source_.main : getauxval(AT_PHDR),
                  source_.memory != nullptr ? *source_.memory : own_memory);
    WriteLocations();
    WriteStrings();
  }
  if (!ok_ || !out_.ok()) {
    errno = ENOMEM;
    return false;
  }
  if (!WriteGzip(fd_, out_.data(), out_.size())) return false;
  errno = saved;
  return true;
}

}  // namespace strata
