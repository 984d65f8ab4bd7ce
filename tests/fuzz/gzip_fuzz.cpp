// Whatever the data, what the gzip writer packs is unpacked to the same by another's inflater.
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "../profile/inflate.h"
#include "base/check.h"
#include "profile/gzip.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int fd = memfd_create("gzip_fuzz", MFD_CLOEXEC);
  STRATA_CHECK(fd >= 0 && ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0);
  // The input, then the input again behind a gap of its first bytes' choosing, up to past the
  // window: so that distances of every size come up.
  std::string text(reinterpret_cast<const char*>(data), size);
  if (size >= 2 && data[0] % 8 == 7) {
    const size_t gap = (size_t{data[0]} << 8 | data[1]) % 40'000;
    for (size_t i = 0; i < gap; ++i) text.push_back(static_cast<char>(i * i >> 7 ^ i >> 3));
    text.append(reinterpret_cast<const char*>(data), size);
  }
  STRATA_CHECK(strata::WriteGzip(fd, text.data(), text.size()));
  std::string packed(static_cast<size_t>(lseek(fd, 0, SEEK_CUR)), '\0');
  STRATA_CHECK(pread(fd, packed.data(), packed.size(), 0) == static_cast<ssize_t>(packed.size()));
  const auto again = strata::test::Inflate(packed);
  STRATA_CHECK(again.has_value() && *again == text);
  return 0;
}
