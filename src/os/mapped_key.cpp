// The key in the list of mappings. See mapped_key.h.
#include "os/mapped_key.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "os/memory_file.h"
#include "os/page_bytes.h"
#include "strata/raw_io.h"

namespace strata {
namespace {

constexpr char kPrefix[] = "strata-key:";
constexpr size_t kPrefixLength = sizeof(kPrefix) - 1;

bool DrawDigits(char* out) {
  unsigned char random[MappedKey::kLength / 2];
  // Early at boot there may be no randomness yet; control is then tried again.
  if (getrandom(random, sizeof(random), GRND_NONBLOCK) != sizeof(random)) return false;
  for (size_t i = 0; i < sizeof(random); ++i) {
    out[2 * i] = "0123456789abcdef"[random[i] >> 4];
    out[2 * i + 1] = "0123456789abcdef"[random[i] & 15];
  }
  explicit_bzero(random, sizeof(random));
  return true;
}

// Maps an empty file of that name, of which nothing is ever read: only the name counts.
bool Show(const char* digits, char* page) {
  char name[kPrefixLength + MappedKey::kLength + 1] = {};
  memcpy(name, kPrefix, kPrefixLength);
  memcpy(name + kPrefixLength, digits, MappedKey::kLength);
  const int file = OpenMemoryFile(name);
  explicit_bzero(name, sizeof(name));
  if (file < 0) return false;
  void* shown = mmap(page, KernelPageBytes(), PROT_NONE, MAP_PRIVATE | MAP_FIXED, file, 0);
  const int why = errno;
  raw::Close(file);
  errno = why;
  return shown != MAP_FAILED && madvise(page, KernelPageBytes(), MADV_DONTFORK) == 0;
}

}  // namespace

bool MappedKey::Make() {
  Drop();
  void* pages = mmap(nullptr, 2 * KernelPageBytes(), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return false;
  pages_ = static_cast<char*>(pages);
  if (madvise(pages_, 2 * KernelPageBytes(), MADV_DONTFORK) != 0 || !DrawDigits(pages_) ||
      !Show(pages_, pages_ + KernelPageBytes())) {
    const int why = errno;
    Drop();
    errno = why;
    return false;
  }
  madvise(pages_, KernelPageBytes(), MADV_DONTDUMP);
  return true;
}

void MappedKey::Drop() {
  if (pages_ == nullptr) return;
  explicit_bzero(pages_, kLength);
  munmap(pages_, 2 * KernelPageBytes());
  pages_ = nullptr;
}

bool MappedKey::Matches(const char* text, size_t length) const {
  if (pages_ == nullptr || length != kLength) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < kLength; ++i) {
    difference |= static_cast<unsigned char>(pages_[i] ^ text[i]);
  }
  return difference == 0;
}

}  // namespace strata
