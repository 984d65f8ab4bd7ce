// Which locations each pointer can hold: inclusion constraints with fields, after Andersen (1994)
// and Pearce, Kelly and Hankin, "Efficient field-sensitive pointer analysis of C", TOPLAS 2007;
// solved in waves: Pereira and Berlin, "Wave propagation and deep propagation for pointer
// analysis", CGO 2009. Knows nothing of LLVM, so that a test can hold it to brute force.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "bits.h"

namespace lint {

using Node = std::uint32_t;
using Object = std::uint32_t;
constexpr Node kNoNode = ~Node{0};
constexpr Node kAnywhere = 0;  // in a set: it may hold any location

class PointsTo {
 public:
  // More fields than this and an object becomes one location.
  static constexpr std::size_t kMostFields = 256;
  // More locations than this and a pointer is taken to lead anywhere.
  static constexpr std::size_t kMostLocations = 512;

  PointsTo() { add_object(); }  // object 0, location 0: anywhere

  Node add_variable();
  // `size`: no location lies beyond it; 0: not known.
  Object add_object(std::int64_t size = 0);
  // Makes one location of all of it.
  void collapse(Object object);
  // The location in an object, which holds pointers as a variable does; kNoNode beyond its end.
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
    Bits points;
    Bits flowed;               // of points: what the copies have
    Bits handled;              // of points: what loads, stores, offsets and watchers have
    std::vector<Node> copies;  // who includes this
    std::vector<Node> loads, stores;
    std::vector<std::pair<Node, std::int64_t>> offsets;
    std::vector<std::uint32_t> watchers;
    bool asks() const {
      return !(loads.empty() && stores.empty() && offsets.empty() && watchers.empty());
    }
  };
  struct Fields {
    std::unordered_map<std::int64_t, Node> at;
    std::int64_t size = 0;
    bool collapsed = false;
  };

  void points(Node p, Node location);
  void wave();
  std::vector<Node> order();
  void handle(Node n);
  void bound(Node n);
  void make_canonical();
  void call(std::uint32_t watch_id, Node location);
  Node shift(Node location, std::int64_t bytes);
  Node unite(Node a, Node b);

  std::vector<Data> nodes_;
  std::vector<Fields> objects_;
  std::vector<std::function<void(Node)>> watches_;
  std::unordered_set<std::uint64_t> edges_;  // copies that are there
  bool changed_ = false;
  bool solved_ = false;
};

}  // namespace lint
