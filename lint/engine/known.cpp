// What a path knows of values and cells (ranges.h).
#include <llvm/IR/Instructions.h>

#include <algorithm>

#include "ranges.h"

namespace lint {

Known::Entry::Entry(const llvm::Value* v, const Range& range)
    : value(v),
      lower(range.getLower().getZExtValue()),
      upper(range.getUpper().getZExtValue()),
      width(range.getBitWidth()) {}

Range Known::Entry::range() const {
  return Range(llvm::APInt(width, lower), llvm::APInt(width, upper));
}

// Where the value is; the number of values if it is not there. `near`: where it may well be.
std::uint32_t Known::place(const llvm::Value* v, std::uint32_t near) const {
  if (near < values_.size() && values_[near].value == v) return near;
  if (!values_.may_mention(v)) return values_.size();
  const Entry* at =
      std::find_if(values_.begin(), values_.end(), [v](const Entry& e) { return e.value == v; });
  return static_cast<std::uint32_t>(at - values_.begin());
}

std::optional<Range> Known::find(const llvm::Value* v) const {
  const std::uint32_t at = place(v);
  return at == values_.size() ? std::nullopt : std::optional<Range>(values_[at].range());
}

void Known::set(const llvm::Value* v, const Range& range) {
  const Entry entry(v, range);
  if (const std::uint32_t at = place(v); at != values_.size()) {
    if (!(values_[at] == entry)) values_.replace(at, entry);
    return;
  }
  if (values_.size() == kMostValues) values_.erase(0);
  values_.push_back(entry);
}

// What was asked of it (Reasoning::compared, bits) was asked of what it was.
void Known::forget(const llvm::Value* v) {
  if (const std::uint32_t at = place(v); at != values_.size()) values_.erase(at);
  if (cells_.may_mention(v))
    cells_.drop_if([v](const Cell& c) { return c.address.root == v || c.value == v; });
  if (v->hasNUsesOrMore(kMostUsers)) return;  // of such nothing is remembered
  for (const llvm::User* user : v->users()) {
    const auto* asks = llvm::dyn_cast<llvm::Instruction>(user);
    if (!llvm::isa<llvm::ICmpInst>(user) &&
        (asks == nullptr || asks->getOpcode() != llvm::Instruction::And)) {
      continue;
    }
    if (const std::uint32_t at = place(asks); at != values_.size()) values_.erase(at);
  }
}

const llvm::Value* Known::cell(Address a) const {
  if (!cells_.may_mention(a.root)) return nullptr;
  for (const Cell& c : cells_) {
    if (c.address.root == a.root && c.address.offset == a.offset) return c.value;
  }
  return nullptr;
}

void Known::set_cell(Address a, const llvm::Value* value) {
  if (cells_.may_mention(a.root)) {
    cells_.drop_if(
        [&](const Cell& c) { return c.address.root == a.root && c.address.offset == a.offset; });
  }
  if (cells_.size() == kMostCells) {
    // A number that was put there says more than the value that was read.
    const Cell* read = std::find_if(cells_.begin(), cells_.end(), [](const Cell& c) {
      return !llvm::isa<llvm::Constant>(c.value);
    });
    cells_.erase(read != cells_.end() ? static_cast<std::uint32_t>(read - cells_.begin()) : 0);
  }
  cells_.push_back({a, value});
}

void Known::copy_cells(const llvm::Value* from, const llvm::Value* to) {
  if (from == to || !cells_.may_mention(from)) return;
  const SharedList<Cell> all = cells_;
  for (const Cell& c : all) {
    if (c.address.root == from) set_cell({to, c.address.offset}, c.value);
  }
}

void Known::rename_cells(const llvm::Value* from, const llvm::Value* to) {
  if (!cells_.may_mention(from)) return;
  const SharedList<Cell> all = cells_;
  for (const Cell& c : all) {
    if (c.value == from) set_cell(c.address, to);
  }
}

bool Known::join(const Known& other) {
  bool lost = false;
  for (std::uint32_t e = 0; e < values_.size(); ++e) {
    const std::uint32_t at = other.place(values_[e].value, e);
    const Range mine = values_[e].range();
    const Range theirs =
        at != other.values_.size() ? other.values_[at].range() : Range::getFull(values_[e].width);
    const Range both = mine.unionWith(theirs);
    lost |= at == other.values_.size() || both != mine;
    if (both != mine) values_.replace(e, {values_[e].value, both});
  }
  values_.drop_if([](const Entry& e) { return e.range().isFullSet(); });
  lost |= cells_.drop_if([&](const Cell& c) { return other.cell(c.address) != c.value; });
  return lost;
}

void Known::keep_same(const Known& other) {
  values_.drop_if([&](const Entry& e) {
    const std::uint32_t at = other.place(e.value);
    return at == other.values_.size() || !(other.values_[at] == e);
  });
  cells_.drop_if([&](const Cell& c) { return other.cell(c.address) != c.value; });
}

bool Known::covers(const Known& other) const {
  if (values_.size() > other.values_.size() || cells_.size() > other.cells_.size()) return false;
  if (!cells_.is(other.cells_)) {
    for (std::uint32_t c = 0; c < cells_.size(); ++c) {
      const Cell& cell = cells_[c];
      if (!(other.cells_[c] == cell) && other.cell(cell.address) != cell.value) return false;
    }
  }
  if (values_.is(other.values_)) return true;
  std::uint32_t near = 0;
  for (const Entry& e : values_) {
    const std::uint32_t at = other.place(e.value, near);
    if (at == other.values_.size()) return false;
    if (!(other.values_[at] == e) && !e.range().contains(other.values_[at].range())) return false;
    near = at + 1;
  }
  return true;
}

}  // namespace lint
