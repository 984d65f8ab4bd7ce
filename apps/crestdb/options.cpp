// Reads the command line; numbers by from_chars, whole words only.
#include "options.h"

#include <charconv>
#include <sstream>
#include <system_error>

namespace crest {
namespace {

bool Names(std::string_view flags, std::string_view name) {
  std::istringstream words{std::string(flags)};
  for (std::string word; words >> word;) {
    if (word == name) return true;
  }
  return false;
}

}  // namespace

Options::Options(int argc, char** argv, std::string_view flags) {
  for (int i = 0; i < argc; ++i) {
    std::string word = argv[i];
    if (word.rfind("--", 0) != 0) throw UsageError("what is '" + word + "'? Options begin with --");
    std::string name = word.substr(2), value;
    if (const size_t equals = name.find('='); equals != std::string::npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    } else if (!Names(flags, name)) {
      if (++i == argc) throw UsageError("--" + name + " needs a value");
      value = argv[i];
    }
    if (!given_.emplace(name, value).second) throw UsageError("--" + name + " is given twice");
  }
}

bool Options::Flag(const std::string& name) { return given_.erase(name) != 0; }

std::string Options::Text(const std::string& name, std::string_view otherwise) {
  const auto at = given_.find(name);
  if (at == given_.end()) return std::string(otherwise);
  std::string value = at->second;
  given_.erase(at);
  return value;
}

uint64_t Options::Number(const std::string& name, uint64_t otherwise, uint64_t least,
                         uint64_t most) {
  const std::string text = Text(name, std::to_string(otherwise));
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most) {
    throw UsageError("--" + name + " takes a number from " + std::to_string(least) + " to " +
                     std::to_string(most) + ", not '" + text + "'");
  }
  return value;
}

double Options::Real(const std::string& name, double otherwise, double least, double most) {
  std::ostringstream shown;
  shown << otherwise;
  const std::string text = Text(name, shown.str());
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // The other way round, so that nan is none either.
  if (error == std::errc{} && end == text.data() + text.size() && value >= least && value <= most)
    return value;
  std::ostringstream range;
  range << least << " to " << most;
  throw UsageError("--" + name + " takes a number from " + range.str() + ", not '" + text + "'");
}

bool Options::OnOff(const std::string& name, bool otherwise) {
  const std::string text = Text(name, otherwise ? "on" : "off");
  if (text != "on" && text != "off")
    throw UsageError("--" + name + " is on or off, not '" + text + "'");
  return text == "on";
}

void Options::ExpectNoMore() const {
  if (!given_.empty()) throw UsageError("there is no option --" + given_.begin()->first);
}

}  // namespace crest
