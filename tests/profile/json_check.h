// A strict reader of JSON for tests: says whether a text is one value and nothing else, and gives
// the scalars by path ("bytes.live", "classes.0.size").
#pragma once

#include <cctype>
#include <map>
#include <string>

namespace strata::test {

class JsonCheck {
 public:
  explicit JsonCheck(std::string text) : text_(std::move(text)) {
    valid_ = Value("") && (Space(), at_ == text_.size());
  }
  bool valid() const { return valid_; }
  size_t error_at() const { return at_; }
  bool Has(const std::string& path) const { return scalars_.contains(path); }
  std::string Of(const std::string& path) const {
    const auto it = scalars_.find(path);
    return it == scalars_.end() ? "(absent)" : it->second;
  }
  size_t duplicates() const { return duplicates_; }

 private:
  void Space() {
    while (at_ < text_.size() && isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool Take(char c) {
    Space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool Word(const char* word, const std::string& path) {
    const size_t n = std::string(word).size();
    if (text_.compare(at_, n, word) != 0) return false;
    at_ += n;
    return Scalar(path, word);
  }
  bool Scalar(const std::string& path, const std::string& value) {
    duplicates_ += !scalars_.emplace(path, value).second;
    return true;
  }
  bool String(std::string* out) {
    if (!Take('"')) return false;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (static_cast<unsigned char>(text_[at_]) < 0x20 || text_[at_] == '\\') return false;
      out->push_back(text_[at_++]);
    }
    return at_ < text_.size() && text_[at_++] == '"';
  }
  size_t Digits() {
    const size_t start = at_;
    while (at_ < text_.size() && isdigit(static_cast<unsigned char>(text_[at_]))) ++at_;
    return at_ - start;
  }
  bool Number(const std::string& path) {
    const size_t start = at_;
    const size_t whole = Digits();
    if (whole == 0 || (whole > 1 && text_[start] == '0')) return false;
    if (at_ < text_.size() && text_[at_] == '.') {
      ++at_;
      if (Digits() == 0) return false;
    }
    return Scalar(path, text_.substr(start, at_ - start));
  }
  bool Value(const std::string& path) {
    Space();
    if (at_ >= text_.size()) return false;
    const std::string dot = path.empty() ? "" : path + ".";
    switch (text_[at_]) {
      case '{':
        ++at_;
        if (Take('}')) return true;
        do {
          std::string name;
          if (!String(&name) || !Take(':') || !Value(dot + name)) return false;
        } while (Take(','));
        return Take('}');
      case '[': {
        ++at_;
        if (Take(']')) return true;
        size_t i = 0;
        do {
          if (!Value(dot + std::to_string(i++))) return false;
        } while (Take(','));
        return Take(']');
      }
      case '"': {
        std::string s;
        return String(&s) && Scalar(path, s);
      }
      case 't':
        return Word("true", path);
      case 'f':
        return Word("false", path);
      default:
        return Number(path);
    }
  }

  std::string text_;
  size_t at_ = 0;
  bool valid_ = false;
  size_t duplicates_ = 0;
  std::map<std::string, std::string> scalars_;
};

}  // namespace strata::test
