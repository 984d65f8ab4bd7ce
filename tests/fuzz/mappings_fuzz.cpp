// The readers of what a process says of its code: /proc/PID/maps of the fuzzer's making, and mapped
// ELF files whose headers and notes lie. No look outside of a mapping, and the profile that is
// written of it unpacks.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "../profile/inflate.h"
#include "base/check.h"
#include "profile/mappings.h"
#include "profile/pprof_writer.h"

namespace {

using namespace strata;

// Serves one image wherever it is asked, and insists that the asker stays inside of it.
class Image : public MemoryReader {
 public:
  Image(const uint8_t* data, size_t size, uintptr_t at)
      : MemoryReader(ReadImage), data_(data), size_(size), at_(at) {}

 private:
  static bool ReadImage(MemoryReader& self, uintptr_t from, void* to, size_t n) {
    auto& image = static_cast<Image&>(self);
    STRATA_CHECK(from >= image.at_ && from - image.at_ <= image.size_);
    STRATA_CHECK(n <= image.size_ - (from - image.at_));
    memcpy(to, image.data_ + (from - image.at_), n);
    return true;
  }

  const uint8_t* data_;
  size_t size_;
  uintptr_t at_;
};

// The same for a writer that may ask about any mapping: memory is the image again and again.
class Everywhere : public MemoryReader {
 public:
  Everywhere(const uint8_t* data, size_t size)
      : MemoryReader(ReadAnywhere), data_(data), size_(size) {}

 private:
  static bool ReadAnywhere(MemoryReader& self, uintptr_t from, void* to, size_t n) {
    auto& image = static_cast<Everywhere&>(self);
    for (size_t i = 0; i < n && image.size_ != 0; ++i)
      static_cast<uint8_t*>(to)[i] = image.data_[(from % 4096 + i) % image.size_];
    return image.size_ != 0;
  }

  const uint8_t* data_;
  size_t size_;
};

void CheckMaps(const std::string& text, MemoryReader& memory) {
  MapsParser parser(text.data(), text.size());
  std::vector<uintptr_t> stack;
  for (Mapping m; parser.Next(&m);) {
    STRATA_CHECK(m.start < m.end);
    STRATA_CHECK(m.path >= text.data() && m.path + m.path_length <= text.data() + text.size());
    stack.insert(stack.end(), {m.start, m.start + 1, m.end, m.end + 1});
  }
  static const int fd = memfd_create("mappings_fuzz", MFD_CLOEXEC);
  STRATA_CHECK(fd >= 0 && ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0);
  constexpr PprofValueType kType{"space", "bytes"};
  PprofHeader header;
  header.mappings = {text.data(), text.size(), &memory, stack.empty() ? 1 : stack[0]};
  PprofWriter writer(fd, &kType, 1, header);
  const int64_t value = 1;
  STRATA_CHECK(writer.Add(stack.data(), stack.size(), &value, nullptr, 0) && writer.Finish());
  std::string packed(static_cast<size_t>(lseek(fd, 0, SEEK_CUR)), '\0');
  STRATA_CHECK(pread(fd, packed.data(), packed.size(), 0) == static_cast<ssize_t>(packed.size()));
  STRATA_CHECK(test::Inflate(packed).has_value());
}

}  // namespace

// The first half is an ELF image, of which the second byte may make a proper header; the rest is
// the text of the maps.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const size_t cut = 1 + size_t{data[0]} * (size - 1) / 256;
  std::vector<uint8_t> elf(data + 1, data + cut);
  if (elf.size() >= 64 && data[1] % 4 != 0) {
    memcpy(elf.data(),
           "\x7f"
           "ELF\x02\x01",
           6);
    elf[54] = 56;  // e_phentsize
    elf[55] = 0;
  }
  Mapping m;
  m.start = 0x7000'0000;
  m.end = m.start + elf.size();
  Image image(elf.data(), elf.size(), m.start);
  if (!elf.empty()) STRATA_CHECK(ReadBuildId(m, image).size <= BuildId::kMaxSize);
  Everywhere memory(elf.data(), elf.size());
  CheckMaps({reinterpret_cast<const char*>(data) + cut, size - cut}, memory);
  return 0;
}
