// Which locations each pointer can hold: inclusion constraints with fields, after Andersen (1994)
// and Pearce, Kelly and Hankin, "Efficient field-sensitive pointer analysis of C", TOPLAS 2007;
// circles are merged when they are met, after Hardekopf and Lin, "The Ant and the Grasshopper",
// PLDI 2007. Knows nothing of LLVM, so that a test can hold it to brute force.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bits.h"

namespace lint {

using Node = std::uint32_t;
using Object = std::uint32_t;
constexpr Node kNoNode = ~Node{0};

class PointsTo {
 public:
  // More fields than this and an object becomes one location.
  static constexpr std::size_t kMostFields = 128;

  Node add_variable();
  Object add_object();
  // Makes one location of all of it.
  void collapse(Object object);
  // The location in an object, which holds pointers as a variable does.
  Node location(Object object, std::int64_t offset);

  void address(Node p, Node location) { points(p, location); }
  void copy(Node to, Node from);
  void load(Node to, Node pointer);
  void store(Node pointer, Node value);
  void offset(Node to, Node from, std::int64_t bytes);
  // `found` is called once for each location that the pointer turns out to hold; it may add
  // variables, objects and constraints.
  void watch(Node pointer, std::function<void(Node location)> found);

  // Until nothing changes. May be called again after more was added.
  void solve();

  const Bits& set(Node n) const { return nodes_[root(n)].points; }
  Object object_of(Node location) const { return nodes_[location].object; }
  std::int64_t offset_of(Node location) const { return nodes_[location].offset; }
  // What stands for the location once its object is one.
  Node canonical(Node location) const;
  bool is_collapsed(Object object) const { return objects_[object].collapsed; }
  std::size_t nodes() const { return nodes_.size(); }
  Node root(Node n) const;

 private:
  struct Data {
    mutable Node parent = kNoNode;
    Object object = ~Object{0};
    std::int64_t offset = 0;
    Bits points, pending;
    std::vector<Node> copies;  // who includes this
    std::vector<Node> loads, stores;
    std::vector<std::pair<Node, std::int64_t>> offsets;
    std::vector<std::uint32_t> watchers;
    bool queued = false;
  };
  struct Fields {
    std::unordered_map<std::int64_t, Node> at;
    bool collapsed = false;
  };

  void points(Node p, Node location);
  void push(Node n);
  void flow(Node n);
  void include(Node to, const Bits& what);
  void call(std::uint32_t watch_id, Node location);
  Node shift(Node location, std::int64_t bytes);
  Node unite(Node a, Node b);
  bool find_circle(Node from, Node to);

  std::vector<Data> nodes_;
  std::vector<Fields> objects_;
  std::vector<std::function<void(Node)>> watches_;
  std::deque<Node> work_;
  std::unordered_map<std::uint64_t, bool> tried_;  // copies that were searched for a circle
};

}  // namespace lint
