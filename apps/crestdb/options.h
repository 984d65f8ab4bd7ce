// The command line: --name VALUE pairs of a command, each taken once. Bad input throws a UsageError
// with one line.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

namespace crest {

struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Options {
 public:
  // Those that take no value are named in `flags`, blank between them.
  Options(int argc, char** argv, std::string_view flags);

  bool Flag(const std::string& name);
  std::string Text(const std::string& name, std::string_view otherwise);
  uint64_t Number(const std::string& name, uint64_t otherwise, uint64_t least, uint64_t most);
  double Real(const std::string& name, double otherwise, double least, double most);
  bool OnOff(const std::string& name, bool otherwise);
  // Throws if one was given that nobody took.
  void ExpectNoMore() const;

 private:
  std::map<std::string, std::string> given_;
};

}  // namespace crest
