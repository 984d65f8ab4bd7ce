// Reads tests/lifetime/golden, which make_golden.py there has made.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace strata {

inline std::string GoldenBytes(const std::string& name) {
  const std::string here = __FILE__;
  std::ifstream file(here.substr(0, here.rfind('/')) + "/golden/" + name, std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::vector<std::string> SplitAt(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == at) {
      parts.emplace_back();
    } else {
      parts.back().push_back(c);
    }
  }
  return parts;
}

// Lines, split at tabs.
inline std::vector<std::vector<std::string>> GoldenRows(const std::string& name) {
  std::vector<std::vector<std::string>> rows;
  for (const std::string& line : SplitAt(GoldenBytes(name), '\n')) {
    if (!line.empty()) rows.push_back(SplitAt(line, '\t'));
  }
  return rows;
}

}  // namespace strata
