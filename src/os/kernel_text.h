// Small files of the kernel's, in /proc and in cgroups: read and written without allocating, by
// system calls that are no cancellation points; errno is kept. Sits in os.
#pragma once

#include <string.h>

#include <cstddef>

namespace strata {

// A path put together in place. One that does not fit becomes empty, which no file has for a name.
class KernelPath {
 public:
  KernelPath& Add(const char* part) { return Add(part, strlen(part)); }
  KernelPath& Add(const char* part, size_t n) {
    if (fits_ && length_ + n < sizeof(text_)) {
      memcpy(text_ + length_, part, n);
      length_ += n;
    } else {
      fits_ = false;
    }
    text_[fits_ ? length_ : 0] = '\0';
    return *this;
  }
  const char* text() const { return text_; }
  size_t length() const { return fits_ ? length_ : 0; }

 private:
  char text_[640] = {};
  size_t length_ = 0;
  bool fits_ = true;
};

// Reads at most n - 1 bytes and ends them with a zero byte. 0, or an errno: ENOENT where there is
// no such file, ENODATA where it is empty, EMFILE where no descriptor is left.
int WhyNoKernelText(const char* path, char* text, size_t n);
inline bool ReadKernelText(const char* path, char* text, size_t n) {
  return WhyNoKernelText(path, text, n) == 0;
}

// 0 where there is no number ("max", "-1") or one that stands for no limit: cgroup version 1 writes
// that as the largest page-aligned number.
size_t ParseKernelNumber(const char* at);

size_t ReadKernelNumber(const char* directory, const char* file);

// The number behind `name` (line start and spaces included) in a text or a file of lines; 0 if it
// is not there.
size_t FieldInText(const char* text, const char* name);
size_t ReadKernelField(const char* directory, const char* file, const char* name);

// False: refused, or not all of it.
bool WriteKernelText(const char* directory, const char* file, const char* text, size_t n);
bool WriteKernelNumber(const char* directory, const char* file, size_t n);

}  // namespace strata
