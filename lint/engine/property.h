// A property as its file states it: a lattice of states, and rules by which functions produce,
// test, pass on and forbid them. Knows nothing of LLVM. docs/lint.md has the language.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lint {

using StateId = std::uint8_t;
constexpr StateId kNoState = 255;
constexpr int kUnlimited = 1 << 20;

// Where a rule looks: `return`, `2`, `*2`, `*2+4` (four bytes further), `**2`, `3..` (all from the
// third on), `owned 1`, `"optarg"` (a global variable's value).
struct Place {
  enum class Kind : std::uint8_t { kReturn, kArgument, kOwned, kGlobal };
  Kind kind = Kind::kReturn;
  int first = 0;  // from 0
  int last = 0;   // kUnlimited for `3..`
  int stars = 0;
  std::int64_t bytes = 0;  // from what the argument points to
  std::string variable;    // of a global
  bool covers(int argument) const { return argument >= first && argument <= last; }
};

// What a returned value or an argument has to be.
struct Condition {
  enum class Kind : std::uint8_t { kNull, kNonNull, kNegative, kNonNegative, kPositive, kEqual };
  Kind kind = Kind::kNonNull;
  std::int64_t value = 0;
};

struct Rule {
  enum class Kind : std::uint8_t { kProduce, kTest, kPass, kForbid, kForbidUse, kForbidEnd };
  Kind kind = Kind::kProduce;
  std::vector<std::string> functions;  // names, demangled names or globs
  bool entry = false;                  // holds where the function begins, not where it is called
  std::vector<Place> places;           // of a pass: where it goes
  Place source;                        // of a pass
  bool overwrites = false;             // of a pass by `=>`
  StateId state = kNoState;
  StateId from = kNoState;
  std::optional<Condition> returned;
  std::optional<Condition> otherwise;  // what is returned if not that; else anything
  std::optional<Condition> argument;
  int argument_index = 0;
  int owner = -1;              // of a produce: the argument that owns what is produced
  bool inside = false;         // of a forbid: wrong only if it points into the object, not to it
  int not_owned_by = -1;       // of a forbid: wrong only if another one owns it
  bool not_recursive = false;  // of a forbid: right for a lock that may be taken again
  bool not_marked = false;     // of a forbid: right where a field of its record decides
  std::string message;
  int line = 0;
};

enum class Track : std::uint8_t { kObject, kContent, kAddress };

struct Property {
  std::string file;
  std::string name;
  std::string title;
  Track track = Track::kObject;
  std::vector<std::string> states;      // the first is where nothing is known
  std::vector<std::uint64_t> at_least;  // for each state, which states are as bad or worse
  std::vector<Rule> rules;
  StateId state(std::string_view wanted) const;
};

struct PropertyError {
  int line = 0;
  int column = 0;
  std::string message;
};

// Reads one property; false and the error if the text is none.
bool parse_property(std::string_view text, Property& property, PropertyError& error);

// Whether a name is matched by a pattern with `*`.
bool matches(std::string_view pattern, std::string_view name);

}  // namespace lint
