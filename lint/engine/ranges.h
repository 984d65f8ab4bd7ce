// What a path has learnt of values: the ranges that branches and constants left them, and which
// value a memory cell holds. Paths whose conditions contradict each other are not followed. After
// Das, Lerner and Seigle, "ESP: path-sensitive program verification in polynomial time", PLDI 2002.
#pragma once

#include <llvm/IR/ConstantRange.h>
#include <llvm/IR/Instructions.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "fact.h"
#include "shared_list.h"

namespace lint {

constexpr unsigned kMostUsers = 64;  // of a number, that are looked at

using Range = llvm::ConstantRange;

// Ways that part share what they know until one of them learns more.
class Known {
 public:
  static constexpr std::size_t kMostValues = 96;
  static constexpr std::size_t kMostCells = 40;

  std::optional<Range> find(const llvm::Value* v) const;
  void set(const llvm::Value* v, const Range& range);
  // The value is computed anew: what was known of the old one is gone.
  void forget(const llvm::Value* v);

  // The value that was stored to or loaded from [root + offset] last.
  const llvm::Value* cell(Address a) const;
  void set_cell(Address a, const llvm::Value* value);
  // What lies below one value lies below the other: they are the same.
  void copy_cells(const llvm::Value* from, const llvm::Value* to);
  // What holds the one holds the other.
  void rename_cells(const llvm::Value* from, const llvm::Value* to);
  template <typename Visit>
  void each_cell(Visit visit) const {
    for (const Cell& c : cells_) visit(c.address, c.value);
  }
  template <typename Keep>
  void keep_cells(Keep keep) {
    cells_.drop_if([&](const Cell& c) { return !keep(c.address); });
  }

  // Only what holds in both; false if nothing was lost.
  bool join(const Known& other);
  // Only what both have alike.
  void keep_same(const Known& other);
  // Whether every state that the other allows is allowed here.
  bool covers(const Known& other) const;

 private:
  struct Entry {
    Entry(const llvm::Value* v, const Range& range);
    Range range() const;
    template <typename Visit>
    void each_key(Visit visit) const {
      visit(value);
    }
    bool operator==(const Entry&) const = default;
    const llvm::Value* value;
    std::uint64_t lower, upper;
    unsigned width;
  };
  struct Cell {
    template <typename Visit>
    void each_key(Visit visit) const {
      visit(address.root);
      visit(value);
    }
    bool operator==(const Cell& o) const {
      return address.root == o.address.root && address.offset == o.address.offset &&
             value == o.value;
    }
    Address address;
    const llvm::Value* value;
  };
  std::uint32_t place(const llvm::Value* v, std::uint32_t near = 0) const;
  SharedList<Entry> values_;
  SharedList<Cell> cells_;
};

std::optional<Range> full_range(const llvm::Type* type);

// Ranges and conditions on one path, where the objects that the fact names are there.
class Reasoning {
 public:
  Reasoning(Known& known, const Fact& fact, Track track)
      : known_(known), fact_(fact), track_(track) {}
  // The range of an integer or pointer; nothing for other types.
  std::optional<Range> range(const llvm::Value* v, int depth = 6) const;
  // Learns that the condition is so; false if it cannot be.
  bool assume(const llvm::Value* condition, bool truth, int depth = 6);
  bool constrain(const llvm::Value* v, const Range& range, int depth = 6);
  // What was asked of those bits of the number, or of others of it, says of them.
  std::optional<Range> bits(const llvm::Value* flags, const llvm::ConstantInt& mask) const;

 private:
  std::optional<Range> compare(const llvm::ICmpInst& cmp, int depth) const;
  std::optional<Range> compared(const llvm::ICmpInst& cmp) const;
  bool is_object(const llvm::Value* v) const;
  std::optional<std::int64_t> position(const llvm::Value* v) const;
  Known& known_;
  const Fact& fact_;
  Track track_;
};

}  // namespace lint
