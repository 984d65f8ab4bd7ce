// The parser of property files: a line is a statement, a word or sign is a token that knows its
// column. Errors name the place of the token that was not expected.
#include "property.h"

#include <cctype>
#include <charconv>

namespace lint {
namespace {

struct Token {
  std::string text;
  int column = 0;
  bool quoted = false;
};

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '?';
}

class Line {
 public:
  Line(std::string_view text, int number, PropertyError& error) : number_(number), error_(error) {
    split(text);
  }
  bool good() const { return good_; }
  bool at_end() const { return next_ >= tokens_.size(); }
  bool peek(std::string_view text) const {
    return !at_end() && !tokens_[next_].quoted && tokens_[next_].text == text;
  }
  bool peek_quoted() const { return !at_end() && tokens_[next_].quoted; }
  bool take(std::string_view text) {
    if (!peek(text)) return false;
    ++next_;
    return true;
  }
  bool expect(std::string_view text) {
    return take(text) || fail("expected '" + std::string(text) + "'");
  }
  bool word(std::string& out, const char* what) {
    if (at_end() || tokens_[next_].quoted || !is_word(tokens_[next_].text[0])) {
      return fail(std::string("expected ") + what);
    }
    out = tokens_[next_++].text;
    return true;
  }
  // A function: a word with globs, or a string with any text.
  bool function(std::string& out) {
    if (peek_quoted()) {
      out = tokens_[next_++].text;
      return true;
    }
    const std::size_t start = next_;
    std::string text;
    int end = 0;
    while (!at_end() && !tokens_[next_].quoted) {
      const Token& t = tokens_[next_];
      if (next_ > start && t.column != end) break;
      if (t.text != "*" && !is_word(t.text[0])) break;
      text += t.text;
      end = t.column + static_cast<int>(t.text.size());
      ++next_;
    }
    if (text.empty()) return fail("expected the name of a function");
    out = text;
    return true;
  }
  bool text(std::string& out) {
    if (!peek_quoted()) return fail("expected a message in double quotes");
    out = tokens_[next_++].text;
    return true;
  }
  bool number(std::int64_t& out) {
    if (peek_quoted() && tokens_[next_].text.size() == 1) {  // a character
      out = static_cast<unsigned char>(tokens_[next_++].text[0]);
      return true;
    }
    std::size_t at = next_;
    const bool minus = at < tokens_.size() && tokens_[at].text == "-";
    if (minus) ++at;
    if (at >= tokens_.size() || tokens_[at].quoted) return fail("expected a number");
    const std::string& s = tokens_[at].text;
    const auto [end, failed] = std::from_chars(s.data(), s.data() + s.size(), out);
    if (failed != std::errc() || end != s.data() + s.size()) return fail("expected a number");
    if (minus) out = -out;
    next_ = at + 1;
    return true;
  }
  bool fail(std::string message) {
    if (good_) {
      good_ = false;
      const int column = at_end() ? end_ : tokens_[next_].column;
      if (at_end())
        message += " at the end of the line";
      else
        message += ", not '" + tokens_[next_].text + "'";
      error_ = {number_, column, std::move(message)};
    }
    return false;
  }
  // The error lies at the token just taken.
  bool fail_before(std::string message) {
    good_ = false;
    error_ = {number_, tokens_[next_ - 1].column, std::move(message)};
    return false;
  }

 private:
  void split(std::string_view text) {
    std::size_t i = 0;
    while (i < text.size() && good_) {
      const char c = text[i];
      const int column = static_cast<int>(i) + 1;
      if (c == '#') break;
      if (std::isspace(static_cast<unsigned char>(c)) != 0) {
        ++i;
      } else if (c == '"') {
        const std::size_t close = text.find('"', i + 1);
        if (close == std::string_view::npos) {
          good_ = false;
          error_ = {number_, column, "the string has no closing '\"'"};
          return;
        }
        tokens_.push_back({std::string(text.substr(i + 1, close - i - 1)), column, true});
        i = close + 1;
      } else {
        std::size_t end = i + 1;
        if (is_word(c)) {
          while (end < text.size() && is_word(text[end])) ++end;
        } else if (text.substr(i, 2) == "->" || text.substr(i, 2) == "=>" ||
                   text.substr(i, 2) == "..") {
          end = i + 2;
        } else if (std::string_view(":=,<*-+").find(c) == std::string_view::npos) {
          good_ = false;
          error_ = {number_, column, std::string("unexpected '") + c + "'"};
          return;
        }
        tokens_.push_back({std::string(text.substr(i, end - i)), column, false});
        i = end;
      }
    }
    end_ = static_cast<int>(i) + 1;
  }

  std::vector<Token> tokens_;
  std::size_t next_ = 0;
  int end_ = 1;
  int number_;
  bool good_ = true;
  PropertyError& error_;
};

bool parse_state(Line& line, const Property& property, StateId& out) {
  std::string name;
  if (!line.word(name, "a state")) return false;
  out = property.state(name);
  return out != kNoState || line.fail_before("no state '" + name + "' in the lattice");
}

bool parse_index(Line& line, int& out) {
  std::int64_t n = 0;
  if (!line.number(n)) return false;
  if (n < 1 || n > 100) return line.fail_before("arguments are counted from 1 to 100");
  out = static_cast<int>(n) - 1;
  return true;
}

bool parse_place(Line& line, Place& place) {
  while (line.take("*")) ++place.stars;
  if (place.stars > 3) return line.fail_before("at most three '*'");
  if (line.peek_quoted()) {
    place.kind = Place::Kind::kGlobal;
    return line.text(place.variable);
  }
  if (line.take("return")) return true;
  if (line.take("owned")) {
    place.kind = Place::Kind::kOwned;
    return parse_index(line, place.first);
  }
  place.kind = Place::Kind::kArgument;
  if (!parse_index(line, place.first)) return false;
  place.last = line.take("..") ? kUnlimited : place.first;
  return place.stars == 0 || !line.take("+") || line.number(place.bytes);
}

bool parse_condition(Line& line, Condition& out) {
  using Kind = Condition::Kind;
  if (line.take("null") || line.take("zero"))
    out.kind = Kind::kNull;
  else if (line.take("nonnull") || line.take("nonzero"))
    out.kind = Kind::kNonNull;
  else if (line.take("negative"))
    out.kind = Kind::kNegative;
  else if (line.take("nonnegative"))
    out.kind = Kind::kNonNegative;
  else if (line.take("positive"))
    out.kind = Kind::kPositive;
  else {
    out.kind = Kind::kEqual;
    return line.number(out.value);
  }
  return true;
}

// `when return COND [else COND]` and `with N = COND`, in any order.
bool parse_conditions(Line& line, Rule& rule) {
  for (;;) {
    if (line.take("when")) {
      rule.returned.emplace();
      if (!line.expect("return") || !parse_condition(line, *rule.returned)) return false;
      if (line.take("else") && !parse_condition(line, rule.otherwise.emplace())) return false;
    } else if (line.take("with")) {
      rule.argument.emplace();
      if (!parse_index(line, rule.argument_index) || !line.expect("=") ||
          !parse_condition(line, *rule.argument)) {
        return false;
      }
    } else {
      return true;
    }
  }
}

bool parse_places(Line& line, std::vector<Place>& places) {
  do {
    places.emplace_back();
    if (!parse_place(line, places.back())) return false;
  } while (line.take(","));
  return true;
}

bool parse_functions(Line& line, Rule& rule) {
  do {
    rule.functions.emplace_back();
    if (!line.function(rule.functions.back())) return false;
  } while (line.take(","));
  return line.expect(":");
}

bool parse_effect(Line& line, const Property& property, Rule& rule) {
  rule.entry = rule.kind == Rule::Kind::kProduce && line.take("entry");
  if (!parse_functions(line, rule) || !parse_places(line, rule.places) || !line.expect("=") ||
      !parse_state(line, property, rule.state)) {
    return false;
  }
  if (line.take("from") && !parse_state(line, property, rule.from)) return false;
  if (line.take("of") && !parse_index(line, rule.owner)) return false;
  if (!parse_conditions(line, rule)) return false;
  if (rule.kind == Rule::Kind::kTest && !rule.returned) {
    return line.fail("a test needs 'when return ...'");
  }
  return true;
}

bool parse_pass(Line& line, const Property& property, Rule& rule) {
  if (property.track == Track::kAddress) return line.fail_before("a place is not passed on");
  if (!parse_functions(line, rule) || !parse_place(line, rule.source)) return false;
  rule.overwrites = line.take("=>");
  if (!rule.overwrites && !line.take("->")) return line.fail("expected '->' or '=>'");
  if (!parse_places(line, rule.places) || !parse_conditions(line, rule)) return false;
  const auto is_whole = [](const Place& place, Place::Kind kind) {
    return place.kind == kind && place.stars == 0;
  };
  const bool simple = is_whole(rule.source, Place::Kind::kArgument) && rule.places.size() == 1 &&
                      is_whole(rule.places[0], Place::Kind::kReturn) && !rule.overwrites &&
                      !rule.returned && !rule.argument;
  return simple || property.track != Track::kObject ||
         line.fail_before("an object is passed on as 'ARGUMENT -> return' only");
}

bool parse_forbid(Line& line, const Property& property, Rule& rule) {
  if (line.take("use")) {
    rule.kind = Rule::Kind::kForbidUse;
  } else if (line.take("end")) {
    rule.kind = Rule::Kind::kForbidEnd;
  }
  if (rule.kind != Rule::Kind::kForbid) {
    if (!line.expect(":")) return false;
  } else {
    if (!parse_functions(line, rule) || !parse_places(line, rule.places) || !line.expect("is")) {
      return false;
    }
  }
  if (!parse_state(line, property, rule.state)) return false;
  rule.inside = line.take("inside");
  if (line.take("not")) {
    rule.not_recursive = line.take("recursive");
    rule.not_marked = !rule.not_recursive && line.take("marked");
    const bool of = !rule.not_recursive && !rule.not_marked;
    if (of && (!line.expect("of") || !parse_index(line, rule.not_owned_by))) return false;
  }
  return parse_conditions(line, rule) && line.text(rule.message);
}

// `a < b < c, a < d`: closes the order over what this line and those before it say.
bool parse_lattice(Line& line, Property& property) {
  std::vector<std::pair<StateId, StateId>> order;
  const auto state = [&](StateId& out) {
    std::string name;
    if (!line.word(name, "a state")) return false;
    out = property.state(name);
    if (out != kNoState) return true;
    if (property.states.size() == 60) return line.fail_before("at most 60 states");
    out = static_cast<StateId>(property.states.size());
    property.states.push_back(name);
    return true;
  };
  do {
    StateId low = 0;
    if (!state(low)) return false;
    while (line.take("<")) {
      StateId high = 0;
      if (!state(high)) return false;
      order.emplace_back(low, high);
      low = high;
    }
  } while (line.take(","));
  const std::size_t count = property.states.size();
  for (std::size_t low = 0; low < property.at_least.size(); ++low) {
    for (std::size_t high = 0; high < property.at_least.size(); ++high) {
      if (low == high || ((property.at_least[low] >> high) & 1) == 0) continue;
      order.emplace_back(static_cast<StateId>(low), static_cast<StateId>(high));
    }
  }
  property.at_least.resize(count);
  for (std::size_t i = 0; i < count; ++i) property.at_least[i] = 1ull << i;
  for (std::size_t round = 0; round < count; ++round) {
    for (const auto& [low, high] : order) property.at_least[low] |= property.at_least[high];
  }
  for (const auto& [low, high] : order) {
    if (((property.at_least[high] >> low) & 1) != 0) {
      return line.fail_before("the lattice has a circle through '" + property.states[low] + "'");
    }
  }
  return true;
}

bool parse_track(Line& line, Property& property) {
  if (line.take("object"))
    property.track = Track::kObject;
  else if (line.take("content"))
    property.track = Track::kContent;
  else if (line.take("address"))
    property.track = Track::kAddress;
  else
    return line.fail("expected 'object', 'content' or 'address'");
  return true;
}

bool parse_statement(Line& line, Property& property) {
  if (line.take("property")) {
    if (!property.name.empty()) return line.fail_before("the file has a name already");
    return line.word(property.name, "a name") && (!line.peek_quoted() || line.text(property.title));
  }
  if (property.name.empty()) return line.fail("expected 'property NAME' first");
  if (line.take("lattice")) return parse_lattice(line, property);
  if (line.take("track")) return parse_track(line, property);
  Rule rule;
  bool (*parse)(Line&, const Property&, Rule&) = nullptr;
  if (line.take("produce")) {
    parse = parse_effect;
  } else if (line.take("test")) {
    rule.kind = Rule::Kind::kTest;
    parse = parse_effect;
  } else if (line.take("pass")) {
    rule.kind = Rule::Kind::kPass;
    parse = parse_pass;
  } else if (line.take("forbid")) {
    rule.kind = Rule::Kind::kForbid;
    parse = parse_forbid;
  } else {
    return line.fail("expected property, lattice, track, produce, test, pass or forbid");
  }
  if (property.states.size() < 2)
    return line.fail_before("expected a lattice of two states before");
  if (!parse(line, property, rule)) return false;
  property.rules.push_back(std::move(rule));
  return true;
}

}  // namespace

StateId Property::state(std::string_view wanted) const {
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (states[i] == wanted) return static_cast<StateId>(i);
  }
  return kNoState;
}

bool matches(std::string_view pattern, std::string_view name) {
  std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  name.remove_prefix(star);
  pattern.remove_prefix(star + 1);
  // What stands between two stars is best where it comes first.
  while ((star = pattern.find('*')) != std::string_view::npos) {
    const std::size_t found = name.find(pattern.substr(0, star));
    if (found == std::string_view::npos) return false;
    name.remove_prefix(found + star);
    pattern.remove_prefix(star + 1);
  }
  return name.ends_with(pattern);
}

bool parse_property(std::string_view text, Property& property, PropertyError& error) {
  int number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view content = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    Line line(content, ++number, error);
    if (!line.good()) return false;
    if (line.at_end()) continue;
    if (!parse_statement(line, property)) return false;
    if (!line.at_end()) return line.fail("expected the end of the line");
  }
  if (property.name.empty() || property.states.size() < 2) {
    error = {number + 1, 1,
             property.name.empty() ? "expected 'property NAME'" : "expected a lattice"};
    return false;
  }
  return true;
}

}  // namespace lint
