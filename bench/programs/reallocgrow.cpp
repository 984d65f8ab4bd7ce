// Growth by realloc, in the three ways programs do it:
//   --how=double   one buffer, 16 B to 4 MiB, doubled each time (a vector)
//   --how=append   one buffer, grown by 64 KiB to 64 MiB, the new part written (reading a file)
//   --how=strings  1,000 strings, a random one made longer by 1 to 64 bytes, restarted at 8 KiB
// Every byte that must survive is checked at its ends. ns is the cost of one realloc.
#include "common.h"

namespace {

char* Grow(char* p, size_t old_size, size_t new_size) {
  auto* grown = static_cast<char*>(realloc(p, new_size));
  if (grown == nullptr) bench::Die("realloc gave null");
  if (old_size != 0 && (grown[0] != 1 || grown[old_size - 1] != 1)) {
    bench::Die("realloc lost bytes");
  }
  return grown;
}

uint64_t Double() {
  uint64_t calls = 0;
  char* p = nullptr;
  for (size_t size = 16, old = 0; size <= size_t{4} << 20; old = size, size *= 2, ++calls) {
    p = Grow(p, old, size);
    p[0] = 1;
    p[size - 1] = 1;
  }
  free(p);
  return calls;
}

uint64_t Append() {
  constexpr size_t kStep = 64 << 10;
  uint64_t calls = 0;
  char* p = nullptr;
  for (size_t old = 0; old < size_t{64} << 20; old += kStep, ++calls) {
    p = Grow(p, old, old + kStep);
    memset(p + old, 1, kStep);
  }
  free(p);
  return calls;
}

class Strings {
 public:
  Strings() : text_(kCount), length_(kCount) {}

  uint64_t Step() {
    for (int i = 0; i < 1000; ++i) {
      const size_t at = random_.Below(kCount);
      if (length_[at] > 8192) {
        free(text_[at]);
        text_[at] = nullptr;
        length_[at] = 0;
      }
      const size_t longer = length_[at] + random_.Between(1, 64);
      text_[at] = Grow(text_[at], length_[at], longer);
      text_[at][0] = 1;
      text_[at][longer - 1] = 1;
      length_[at] = longer;
    }
    return 1000;
  }

  void Clear() {
    for (size_t i = 0; i < kCount; ++i) free(text_[i]);
  }

 private:
  static constexpr size_t kCount = 1000;

  bench::Array<char*> text_;
  bench::Array<size_t> length_;
  bench::Random random_{3};
};

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const char* how = options.Text("how", "double");
  const double seconds = options.Scaled("seconds", 0.5);
  options.RejectUnknown();

  Strings strings;
  const bench::Total total = bench::RunThreads(1, [&](unsigned) {
    if (strcmp(how, "double") == 0) return bench::RunFor(seconds, Double);
    if (strcmp(how, "append") == 0) return bench::RunFor(seconds, Append);
    if (strcmp(how, "strings") != 0) bench::Die("--how is double, append or strings");
    return bench::RunFor(seconds, [&] { return strings.Step(); });
  });
  strings.Clear();

  bench::Report report("reallocgrow");
  report.Add("how=%s", how);
  report.Rate(total);
  report.Finish();
  return 0;
}
