// Text without allocation. See text_sink.h.
#include "profile/text_sink.h"

#include "base/write_all.h"

namespace strata {

TextSink& TextSink::Char(char c) {
  if (memory_ != nullptr || fd_ < 0) {
    if (length_ + 1 < capacity_) memory_[length_] = c;
  } else {
    if (used_ == sizeof(buffer_)) Flush();
    buffer_[used_++] = c;
  }
  ++length_;
  return *this;
}

TextSink& TextSink::Text(const char* s) {
  for (; *s != '\0'; ++s) Char(*s);
  return *this;
}

TextSink& TextSink::Number(uint64_t n) {
  char digits[24];
  size_t at = sizeof(digits);
  digits[--at] = '\0';
  do {
    digits[--at] = static_cast<char>('0' + n % 10);
    n /= 10;
  } while (n != 0);
  return Text(&digits[at]);
}

namespace {

// What is no number, or too large for one, is taken as the nearest that can be written.
uint64_t InParts(double value, double parts) {
  constexpr double kMost = 1e15;
  const double bounded = value > 0 ? (value < kMost ? value : kMost) : 0;
  return static_cast<uint64_t>(bounded * parts + 0.5);
}

}  // namespace

TextSink& TextSink::Percent(double ratio) {
  const uint64_t tenths = InParts(ratio, 1000);
  return Number(tenths / 10).Char('.').Number(tenths % 10).Text(" %");
}

TextSink& TextSink::Fraction(double value) {
  const uint64_t scaled = InParts(value, 10000);
  Number(scaled / 10000).Char('.');
  for (uint64_t unit = 1000; unit != 0; unit /= 10)
    Char(static_cast<char>('0' + scaled / unit % 10));
  return *this;
}

TextSink& TextSink::Mebibytes(size_t bytes) {
  // Rounded to the nearest tenth, in parts, so that no size overflows.
  const size_t tenths = (bytes >> 20) * 10 + (((bytes & 0xfffff) * 10 + (size_t{1} << 19)) >> 20);
  return Number(tenths / 10).Char('.').Number(tenths % 10).Text(" MiB");
}

TextSink& TextSink::Size(size_t bytes) {
  if (bytes == 0) return Text("0");
  if (bytes >= size_t{1} << 20) return Mebibytes(bytes);
  const size_t tenths = (bytes * 10 + 512) >> 10;
  return Number(tenths / 10).Char('.').Number(tenths % 10).Text(" KiB");
}

TextSink& TextSink::Padded(const char* s, size_t width) {
  const size_t start = length_;
  Text(s);
  while (length_ - start < width) Char(' ');
  return *this;
}

void TextSink::Flush() {
  if (!failed_) failed_ = !WriteAll(fd_, buffer_, used_);
  used_ = 0;
}

size_t TextSink::Finish(bool* ok) {
  if (fd_ >= 0) {
    Flush();
  } else if (capacity_ != 0) {
    memory_[length_ < capacity_ ? length_ : capacity_ - 1] = '\0';
  }
  if (ok != nullptr) *ok = !failed_;
  return length_;
}

}  // namespace strata
