// Which locations each pointer can hold: inclusion constraints with fields, after Andersen (1994)
// and Pearce, Kelly and Hankin, "Efficient field-sensitive pointer analysis of C", TOPLAS 2007;
// solved in waves over what changed: Pereira and Berlin, "Wave propagation and deep propagation for
// pointer analysis", CGO 2009. Knows nothing of LLVM, so that a test can hold it to brute force.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <unordered_map>
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
  // Words of sets that are looked at, some minutes' worth; then that bound is lowered in steps, so
  // that any program comes to its end.
  static constexpr std::uint64_t kMostWork = 20'000'000'000;

  explicit PointsTo(std::uint64_t most_work = kMostWork) : work_left_(most_work) {
    add_object();  // object 0, location 0: anywhere
  }

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

  // Until nothing changes. May be called again after more was added. `progress` is told of pointers
  // that are done with and those that are known to wait.
  void solve(const std::function<void(std::size_t done, std::size_t all)>& progress = {});
  // Whether the bound was lowered: more pointers lead anywhere than have to.
  bool is_coarse() const { return limit_ != kMostLocations; }

  const Bits& set(Node n) const { return nodes_[root(n)].points; }
  Object object_of(Node location) const { return nodes_[location].object; }
  std::int64_t offset_of(Node location) const { return nodes_[location].offset; }
  // What stands for the location once its object is one.
  Node canonical(Node location) const;
  std::size_t nodes() const { return nodes_.size(); }
  Node root(Node n) const;

 private:
  struct Data {
    mutable Node parent = kNoNode;
    Object object = ~Object{0};
    std::int64_t offset = 0;
    Bits points;
    Bits done;    // of points: what all that follows has
    Bits copies;  // who includes this
    std::vector<Node> loads, stores;
    std::vector<std::pair<Node, std::int64_t>> offsets;
    std::vector<std::uint32_t> watchers;
    std::uint32_t rank = 0;  // after those that it includes
    bool waits = false;
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
  void touch(Node n);
  void order();
  void tidy(Node n);
  void queue_anew();
  void visit(Node n);
  void flow(Node to, const Bits& locations);
  void bound(Node n, std::size_t most);
  void spend(std::uint64_t words);
  void make_canonical();
  void call(std::uint32_t watch_id, Node location);
  void load_from(Node to, Node location);
  void store_at(Node location, Node value);
  void offset_from(Node to, Node location, std::int64_t bytes);
  Node shift(Node location, std::int64_t bytes);
  Node unite(Node a, Node b);

  std::vector<Data> nodes_;
  std::vector<Fields> objects_;
  std::vector<std::function<void(Node)>> watches_;
  // What waits: by rank, those of this wave and those behind what the wave has passed.
  using Queue = std::priority_queue<std::pair<std::uint32_t, Node>,
                                    std::vector<std::pair<std::uint32_t, Node>>, std::greater<>>;
  Queue wave_, next_;
  std::uint32_t passed_ = 0;
  std::size_t limit_ = kMostLocations;
  std::uint64_t work_left_;
  std::uint64_t since_order_ = 0;
  std::size_t edges_ = 0;  // when the order was made
  bool solved_ = false;
};

}  // namespace lint
