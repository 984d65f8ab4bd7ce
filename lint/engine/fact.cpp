// Names and facts (fact.h).
#include "fact.h"

#include <llvm/Analysis/CaptureTracking.h>
#include <llvm/IR/Instructions.h>

#include <algorithm>

namespace lint {

const llvm::Value* returned_value() {
  static const char place = 0;
  return reinterpret_cast<const llvm::Value*>(&place);
}

bool offsets_meet(std::int64_t a, std::int64_t b) {
  return a == b || a == kAnyOffset || b == kAnyOffset;
}

bool prefixed(const Name& name, const llvm::Value* root, std::int64_t offset, Name& out) {
  if (name.steps == kMostSteps) return false;
  out = name;
  out.root = root;
  out.steps = static_cast<std::uint8_t>(name.steps + 1);
  for (int i = name.steps; i >= 0; --i)
    out.offsets[static_cast<std::size_t>(i) + 1] = name.offsets[static_cast<std::size_t>(i)];
  out.offsets[0] = offset;
  return true;
}

bool derived(const Name& name, Address from, const llvm::Value* loaded, Name& out) {
  if (name.steps == 0 || name.root != from.root || !offsets_meet(name.offsets[0], from.offset)) {
    return false;
  }
  out = name;
  out.root = loaded;
  out.steps = static_cast<std::uint8_t>(name.steps - 1);
  std::copy(name.offsets.begin() + 1, name.offsets.end(), out.offsets.begin());
  out.offsets[kMostSteps] = 0;
  return true;
}

bool Fact::add(const Name& name) {
  const auto at = std::lower_bound(names.begin(), names.end(), name);
  if (at != names.end() && *at == name) return true;
  if (names.size() >= kMostNames) {
    escaped = true;
    return false;
  }
  names.insert(at, name);
  return true;
}

bool is_own(const llvm::Value* root) {
  if (llvm::isa<llvm::AllocaInst>(root)) return true;
  const auto* call = llvm::dyn_cast<llvm::CallBase>(root);
  return call != nullptr && call->returnDoesNotAlias() &&
         !llvm::PointerMayBeCaptured(root, false, true);
}

void Fact::lie_at(const llvm::Value* root) {
  if (is_own(root)) return;
  (llvm::isa<llvm::Argument>(root) ? lent : escaped) = true;
}

bool Fact::has_object() const {
  return std::any_of(names.begin(), names.end(),
                     [](const Name& n) { return n.kind != Name::Kind::kOwner; });
}

bool Fact::is_named(Address a, Track track) const {
  for (const Name& n : names) {
    if (n.kind != Name::Kind::kObject || n.steps != 0 || n.root != a.root) continue;
    if (track == Track::kObject || offsets_meet(n.offsets[0], a.offset)) return true;
    if (track == Track::kContent && a.offset > n.offsets[0] &&
        (extent == 0 || a.offset < n.offsets[0] + extent)) {
      return true;
    }
  }
  return false;
}

std::size_t FactHash::operator()(const Fact& f) const {
  std::size_t h = f.property * 31u + f.state * 7u + (f.escaped ? 1u : 0u) + (f.lent ? 2u : 0u) +
                  (f.guess ? 4u : 0u) + reinterpret_cast<std::size_t>(f.skipped) / 8;
  h = h * 1000003 + static_cast<std::size_t>(f.extent);
  for (const Name& n : f.names) {
    h = h * 1000003 + reinterpret_cast<std::size_t>(n.root) / 8;
    h = h * 31 + n.steps * 5u + static_cast<std::size_t>(n.kind);
    for (std::size_t i = 0; i <= n.steps; ++i)
      h = h * 1000003 + static_cast<std::size_t>(n.offsets[i]);
  }
  return h;
}

FactId Facts::id(const Fact& fact) {
  const auto [at, added] = ids_.try_emplace(fact, static_cast<FactId>(all_.size()));
  if (added) all_.push_back(&at->first);
  return at->second;
}

}  // namespace lint
