// Text without allocation: numbers and strings into a fixed buffer that empties into a file
// descriptor, or into the caller's memory with snprintf's rules. Sits in profile; every exporter
// writes through it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata {

class TextSink {
 public:
  // To memory: cut at capacity, always ended by a zero byte if there is any capacity.
  TextSink(char* memory, size_t capacity) : memory_(memory), capacity_(capacity) {}
  // To a file descriptor.
  explicit TextSink(int fd) : fd_(fd) {}

  TextSink& Text(const char* s);
  TextSink& Char(char c);
  TextSink& Number(uint64_t n);
  TextSink& Fraction(double value);   // four decimals
  TextSink& Percent(double ratio);    // 86.9 %, for people
  TextSink& Mebibytes(size_t bytes);  // "12.3 MiB"
  TextSink& Size(size_t bytes);       // "12.3 KiB" below a MiB, "12.3 MiB" from there on
  TextSink& Padded(const char* s, size_t width);

  // Ends the text. Returns its whole length; false in *ok if a write failed.
  size_t Finish(bool* ok = nullptr);

 private:
  void Flush();

  char* memory_ = nullptr;
  size_t capacity_ = 0;
  int fd_ = -1;
  size_t length_ = 0;  // of all the text
  size_t used_ = 0;    // of buffer_
  bool failed_ = false;
  char buffer_[2048];
};

}  // namespace strata
