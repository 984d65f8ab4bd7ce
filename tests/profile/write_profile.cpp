// Writes a profile to stdout with PprofWriter, as told on stdin, for the Python tests: the writer
// on one side, the reader and `go tool pprof` on the other. Words are separated by blanks:
//   type NAME UNIT | default NAME | period NAME UNIT NUMBER | time NS | duration NS | comment WORD
//   maps FILE          (the text of /proc/PID/maps; without it this process' own)
//   row DEPTH ADDRESS... VALUE... LABELS (KEY text WORD | KEY number NUMBER UNIT)...
// An ADDRESS of the form @N stands for a return address inside of this program.
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <deque>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "profile/pprof_writer.h"

namespace {

using strata::PprofLabel;
using strata::PprofValueType;

// Functions with bodies of some length, so that addresses inside of them can be found again.
template <int N>
[[gnu::noinline]] int Landmark(int n) {
  for (int i = 0; i < n; ++i) asm volatile("nop; nop; nop; nop; nop; nop; nop; nop" : "+r"(n));
  return n + N;
}
constexpr int (*kLandmarks[])(int) = {Landmark<0>, Landmark<1>, Landmark<2>, Landmark<3>};

uintptr_t AddressOf(const std::string& word) {
  if (word[0] != '@') return std::stoull(word, nullptr, 0);
  return reinterpret_cast<uintptr_t>(kLandmarks[std::stoul(word.substr(1)) % 4]) + 8;
}

struct Row {
  std::vector<uintptr_t> stack;
  std::vector<int64_t> values;
  std::vector<PprofLabel> labels;
};

class Input {
 public:
  const char* Word() {
    std::string word;
    if (!(std::cin >> word)) return nullptr;
    return words_.emplace_back(word == "''" ? "" : word).c_str();
  }
  const char* Need() {
    const char* word = Word();
    if (word == nullptr) {
      std::cerr << "the input ends too early\n";
      _exit(2);
    }
    return word;
  }
  int64_t Number() { return std::stoll(Need()); }

 private:
  std::deque<std::string> words_;  // keeps them where they are
};

Row ReadRow(Input& in, size_t types_n) {
  Row row;
  for (int64_t n = in.Number(); n > 0; --n) row.stack.push_back(AddressOf(in.Need()));
  for (size_t i = 0; i < types_n; ++i) row.values.push_back(in.Number());
  for (int64_t n = in.Number(); n > 0; --n) {
    PprofLabel label{in.Need(), nullptr, 0, nullptr};
    if (strcmp(in.Need(), "text") == 0) {
      label.text = in.Need();
    } else {
      label.number = in.Number();
      label.unit = in.Need();
    }
    row.labels.push_back(label);
  }
  return row;
}

}  // namespace

int main() {
  Input in;
  std::vector<PprofValueType> types;
  std::vector<Row> rows;
  std::string maps;
  strata::PprofHeader header;
  strata::NoMemory nothing;
  while (const char* verb = in.Word()) {
    const std::string what = verb;
    if (what == "type") {
      const char* name = in.Need();
      types.push_back({name, in.Need()});
    } else if (what == "period") {
      header.period_type.type = in.Need();
      header.period_type.unit = in.Need();
      header.period = in.Number();
    } else if (what == "default") {
      header.default_type = in.Need();
    } else if (what == "time") {
      header.time_ns = in.Number();
    } else if (what == "duration") {
      header.duration_ns = in.Number();
    } else if (what == "comment") {
      header.comment = in.Need();
    } else if (what == "maps") {
      std::ifstream file(in.Need(), std::ios::binary);
      maps.assign(std::istreambuf_iterator<char>(file), {});
      header.mappings = {maps.data(), maps.size(), &nothing, 1};
    } else if (what == "row") {
      rows.push_back(ReadRow(in, types.size()));
    } else {
      std::cerr << "what is '" << what << "'?\n";
      return 2;
    }
  }
  strata::PprofWriter writer(STDOUT_FILENO, types.data(), types.size(), header);
  for (const Row& row : rows) {
    writer.Add(row.stack.data(), row.stack.size(), row.values.data(), row.labels.data(),
               row.labels.size());
  }
  if (writer.Finish()) return 0;
  std::cerr << strerror(errno) << "\n";
  return 1;
}
