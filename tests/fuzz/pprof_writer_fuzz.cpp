// Rows of the fuzzer's making through the profile writer and back: what another's decoder reads of
// the file is what was added, each string and each location stands there once, and a location has
// the mapping that it lies in.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "../profile/inflate.h"
#include "../profile/proto_fields.h"
#include "base/check.h"
#include "profile/pprof_writer.h"

namespace {

using namespace strata;
using test::All, test::Fields, test::NumberOf, test::Packed;

constexpr char kMaps[] =
    "400000-401000 r--p 00000000 fd:01 1 /bin/main\n"
    "401000-402000 r-xp 00001000 fd:01 1 /bin/main\n"
    "10000000-10001000 r-xp 00000000 00:00 0 \n"
    "7fff00000000-7fff00002000 r-xp 00000000 fd:01 2 /lib/gone.so (deleted)\n";
constexpr uintptr_t kCode[] = {0x401000, 0x10000000, 0x7fff00000000};
constexpr const char* kWords[] = {"bytes", "level", "page", "x", "\xc3\xbc", ""};

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return size_ == 0; }
  uint64_t Number(size_t n) {
    uint64_t value = 0;
    const size_t taken = n < size_ ? n : size_;
    memcpy(&value, data_, taken);
    data_ += taken;
    size_ -= taken;
    return value;
  }
  uint8_t Byte() { return static_cast<uint8_t>(Number(1)); }
  const char* Word() { return kWords[Byte() % std::size(kWords)]; }

 private:
  const uint8_t* data_;
  size_t size_;
};

struct Row {
  std::vector<uintptr_t> stack;
  std::vector<int64_t> values;
  std::vector<PprofLabel> labels;
};

uintptr_t Address(Input& in) {
  const uint8_t how = in.Byte();
  if (how < 64) return static_cast<uintptr_t>(in.Number(8));
  return kCode[how % std::size(kCode)] + in.Number(2) % 0x1100;
}

Row MakeRow(Input& in, size_t types) {
  Row row;
  const uint8_t shape = in.Byte();
  for (int i = 0; i < shape % 16; ++i) row.stack.push_back(Address(in));
  for (size_t i = 0; i < types; ++i)
    row.values.push_back(static_cast<int64_t>(in.Number(i % 2 == 0 ? 8 : 1)));
  for (int i = 0; i < shape / 16 % 4; ++i) {
    const char* key = in.Word();
    if (shape >= 128) {
      row.labels.push_back({key, in.Word(), 0, nullptr});
    } else {
      row.labels.push_back({key, nullptr, static_cast<int64_t>(in.Number(8)), in.Word()});
    }
  }
  return row;
}

void CheckSample(const test::FieldMap& sample, const Row& row,
                 const std::vector<std::string>& strings,
                 const std::vector<test::FieldMap>& places) {
  const std::vector<uint64_t> stack = Packed(sample, 1), values = Packed(sample, 2);
  STRATA_CHECK(stack.size() == row.stack.size());
  for (size_t i = 0; i < stack.size(); ++i) {
    // A return address stands behind its call.
    const uintptr_t call = row.stack[i] == 0 ? 0 : row.stack[i] - 1;
    STRATA_CHECK(NumberOf(places.at(stack[i] - 1), 3) == call);
  }
  STRATA_CHECK(values.size() == row.values.size());
  for (size_t i = 0; i < values.size(); ++i)
    STRATA_CHECK(static_cast<int64_t>(values[i]) == row.values[i]);
  const std::vector<std::string> labels = All(sample, 3);
  STRATA_CHECK(labels.size() == row.labels.size());
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto label = Fields(labels[i]);
    const PprofLabel& wanted = row.labels[i];
    STRATA_CHECK(strings.at(NumberOf(label, 1)) == wanted.key);
    if (wanted.text != nullptr) {
      STRATA_CHECK(strings.at(NumberOf(label, 2)) == wanted.text);
    } else {
      STRATA_CHECK(static_cast<int64_t>(NumberOf(label, 3)) == wanted.number);
      STRATA_CHECK(strings.at(NumberOf(label, 4)) == wanted.unit);
    }
  }
}

void CheckMapping(const test::FieldMap& place, const std::vector<test::FieldMap>& mappings) {
  const uint64_t address = NumberOf(place, 3), id = NumberOf(place, 2);
  if (id != 0) {
    const auto& mapping = mappings.at(id - 1);
    STRATA_CHECK(NumberOf(mapping, 2) <= address && address < NumberOf(mapping, 3));
    return;
  }
  for (const uintptr_t code : kCode) STRATA_CHECK(address < code || address >= code + 0x1000);
}

std::vector<test::FieldMap> Messages(const test::FieldMap& profile, unsigned field) {
  std::vector<test::FieldMap> found;
  for (const std::string& message : All(profile, field)) {
    found.push_back(Fields(message));
    STRATA_CHECK(NumberOf(found.back(), 1) == found.size());  // its id
  }
  return found;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int fd = memfd_create("pprof_writer_fuzz", MFD_CLOEXEC);
  STRATA_CHECK(fd >= 0 && ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0);
  Input in(data, size);
  const PprofValueType types[] = {{"a", "bytes"}, {"b", "count"}, {"c", "x"}, {"d", "x"}};
  const size_t types_n = 1 + in.Byte() % 4;
  NoMemory memory;
  PprofHeader header;
  header.mappings = {kMaps, sizeof(kMaps) - 1, &memory, kCode[0]};
  PprofWriter writer(fd, types, types_n, header);
  std::vector<Row> rows;
  while (!in.empty() && rows.size() < 200) {
    const Row& row = rows.emplace_back(MakeRow(in, types_n));
    STRATA_CHECK(writer.Add(row.stack.data(), row.stack.size(), row.values.data(),
                            row.labels.data(), row.labels.size()));
  }
  STRATA_CHECK(writer.Finish());
  std::string packed(static_cast<size_t>(lseek(fd, 0, SEEK_CUR)), '\0');
  STRATA_CHECK(pread(fd, packed.data(), packed.size(), 0) == static_cast<ssize_t>(packed.size()));
  const auto profile = Fields(test::Inflate(packed).value());

  const std::vector<std::string> strings = All(profile, 6);
  STRATA_CHECK(strings.at(0).empty());
  STRATA_CHECK(std::set<std::string>(strings.begin(), strings.end()).size() == strings.size());
  const auto mappings = Messages(profile, 3), places = Messages(profile, 4);
  std::set<uint64_t> addresses;
  for (const auto& place : places) {
    CheckMapping(place, mappings);
    addresses.insert(NumberOf(place, 3));
  }
  const std::vector<std::string> samples = All(profile, 2);
  STRATA_CHECK(samples.size() == rows.size());
  for (size_t i = 0; i < rows.size(); ++i)
    CheckSample(Fields(samples[i]), rows[i], strings, places);
  return 0;
}
