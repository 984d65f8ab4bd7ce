// What the solver carries along a path: one object in one state, under the names by which the
// program can reach it there. After Fink et al., "Effective typestate verification in the presence
// of aliasing", TOSEM 2008: names are access paths that surely hold.
#pragma once

#include <llvm/IR/Value.h>

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "memory.h"
#include "property.h"

namespace lint {

constexpr int kMostSteps = 3;  // dereferences in a name
constexpr std::size_t kMostNames = 8;

// [root + offsets[0]] dereferenced, + offsets[1], ..., + offsets[steps]: a pointer to the object,
// or, for a scalar or a descriptor, its value.
struct Name {
  enum class Kind : std::uint8_t {
    kObject,
    kOwner,   // names what the object belongs to
    kScalar,  // a value that carries the state by itself
    kPack,    // the root is a function, or a va_list, through whose `...` the object is reached
  };
  const llvm::Value* root = nullptr;
  std::array<std::int64_t, kMostSteps + 1> offsets{};
  std::uint8_t steps = 0;
  Kind kind = Kind::kObject;

  bool operator==(const Name&) const = default;
  bool operator<(const Name& o) const {
    return std::tie(kind, root, steps, offsets) < std::tie(o.kind, o.root, o.steps, o.offsets);
  }
};

// Whether memory is a function's own: a local variable, or what it allocated and shows to nobody.
bool is_own(const llvm::Value* root);

// Stands for what a function returns, in the names at its end.
const llvm::Value* returned_value();

// The name of what is at the address, one dereference further; nothing if it grows too long.
bool prefixed(const Name& name, const llvm::Value* root, std::int64_t offset, Name& out);
// The name for what a load from [root + offset] gave, if the name goes through there.
bool derived(const Name& name, Address from, const llvm::Value* loaded, Name& out);
bool offsets_meet(std::int64_t a, std::int64_t b);

struct Fact {
  std::uint16_t property = 0;
  StateId state = 0;
  bool escaped = false;     // others can reach it: its end is theirs
  bool lent = false;        // it lies where a parameter leads: its end is the caller's
  bool guess = false;       // it hangs on what is not followed
  std::int64_t extent = 0;  // bytes of content from the named one on; 0: all
  const llvm::BasicBlock* skipped = nullptr;  // of a loop that may have ended what it is
  std::vector<Name> names;                    // sorted

  bool operator==(const Fact&) const = default;
  bool add(const Name& name);
  bool has_object() const;
  // A pointer to it now lies in memory that the root leads to.
  void lie_at(const llvm::Value* root);
  // Whether the value is the object, or points into it.
  bool is_named(Address a, Track track) const;
};

struct FactHash {
  std::size_t operator()(const Fact& f) const;
};

using FactId = std::uint32_t;

class Facts {
 public:
  FactId id(const Fact& fact);
  const Fact& operator[](FactId i) const { return *all_[i]; }

 private:
  std::unordered_map<Fact, FactId, FactHash> ids_;
  std::vector<const Fact*> all_;
};

}  // namespace lint
