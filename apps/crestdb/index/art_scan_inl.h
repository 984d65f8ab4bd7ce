// Scans of the adaptive radix tree (art.h). One batch is taken with every node on the way down to
// it held to be read, so it is what the tree held at one moment.
#pragma once

#include "index/art.h"

namespace crest {

// Adds the records below `node`, which the caller holds and whose prefix begins at `depth`, until
// the batch is full; along the key that the scan begins with, only those that are not less.
template <class Values>
void Art<Values>::Collect(Node* node, size_t depth, std::string_view from, Side side,
                          Batch& batch) {
  const std::string_view prefix = node->prefix.view();
  if (side == Side::kAlong) {
    const std::string_view rest = from.substr(depth);
    const size_t common = CommonPrefix(prefix, rest);
    if (common < prefix.size()) {
      if (common < rest.size() && ByteAt(prefix, common) < ByteAt(rest, common)) return;
      side = Side::kBehind;
    }
  }
  depth += prefix.size();

  size_t first = 0;
  if (side == Side::kAlong && depth < from.size()) {
    first = ByteAt(from, depth);
  } else {
    side = Side::kBehind;
    if (node->ends != nullptr) batch.Add(node->ends);
  }
  for (Child child = Nodes::Next(node, first); child.link != nullptr && !batch.full();
       child = Nodes::Next(node, child.byte + 1u)) {
    const Side below = child.byte == first ? side : Side::kBehind;
    if (Node* next = child.link->node(); next != nullptr) {
      const Held held(next, Mode::kShared);
      Collect(next, depth + 1, from, below, batch);
    } else if (below == Side::kBehind || !(child.link->record()->key() < from)) {
      batch.Add(child.link->record());
    }
  }
}

}  // namespace crest
