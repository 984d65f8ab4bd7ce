// A worklist of nodes whose sets grew; only what is new flows on.
#include "points_to.h"

#include <algorithm>

namespace lint {

Node PointsTo::add_variable() {
  nodes_.emplace_back();
  return static_cast<Node>(nodes_.size() - 1);
}

Object PointsTo::add_object() {
  objects_.emplace_back();
  const auto object = static_cast<Object>(objects_.size() - 1);
  location(object, 0);
  return object;
}

Node PointsTo::location(Object object, std::int64_t offset) {
  Fields& fields = objects_[object];
  if (fields.collapsed || offset < 0) offset = 0;
  if (const auto found = fields.at.find(offset); found != fields.at.end()) return found->second;
  if (fields.at.size() >= kMostFields) {
    collapse(object);
    return fields.at.find(0)->second;
  }
  const Node n = add_variable();
  nodes_[n].object = object;
  nodes_[n].offset = offset;
  fields.at.emplace(offset, n);
  return n;
}

Node PointsTo::canonical(Node location_node) const {
  const Fields& fields = objects_[nodes_[location_node].object];
  return fields.collapsed ? fields.at.find(0)->second : location_node;
}

Node PointsTo::root(Node n) const {
  Node top = n;
  while (nodes_[top].parent != kNoNode) top = nodes_[top].parent;
  while (nodes_[n].parent != kNoNode) n = std::exchange(nodes_[n].parent, top);
  return top;
}

void PointsTo::push(Node n) {
  if (nodes_[n].queued) return;
  nodes_[n].queued = true;
  work_.push_back(n);
}

void PointsTo::points(Node p, Node location) {
  p = root(p);
  if (nodes_[p].points.set(location)) {
    nodes_[p].pending.set(location);
    push(p);
  }
}

void PointsTo::include(Node to, const Bits& what) {
  to = root(to);
  if (nodes_[to].points.merge(what, &nodes_[to].pending)) push(to);
}

void PointsTo::copy(Node to, Node from) {
  to = root(to);
  from = root(from);
  if (to == from) return;
  std::vector<Node>& out = nodes_[from].copies;
  if (std::find(out.begin(), out.end(), to) != out.end()) return;
  out.push_back(to);
  include(to, nodes_[from].points);
}

void PointsTo::load(Node to, Node pointer) {
  pointer = root(pointer);
  nodes_[pointer].loads.push_back(to);
  const Bits known = nodes_[pointer].points;
  known.each([&](Node l) { copy(to, l); });
}

void PointsTo::store(Node pointer, Node value) {
  pointer = root(pointer);
  nodes_[pointer].stores.push_back(value);
  const Bits known = nodes_[pointer].points;
  known.each([&](Node l) { copy(l, value); });
}

void PointsTo::offset(Node to, Node from, std::int64_t bytes) {
  from = root(from);
  nodes_[from].offsets.emplace_back(to, bytes);
  const Bits known = nodes_[from].points;
  known.each([&](Node l) { points(to, shift(l, bytes)); });
}

// A copy of the function: the call may add others and move it.
void PointsTo::call(std::uint32_t watch_id, Node location_node) {
  const std::function<void(Node)> found = watches_[watch_id];
  found(location_node);
}

void PointsTo::watch(Node pointer, std::function<void(Node)> found) {
  pointer = root(pointer);
  watches_.push_back(std::move(found));
  const auto id = static_cast<std::uint32_t>(watches_.size() - 1);
  nodes_[pointer].watchers.push_back(id);
  const Bits known = nodes_[pointer].points;
  known.each([&](Node l) { call(id, l); });
}

Node PointsTo::shift(Node location_node, std::int64_t bytes) {
  const Object object = nodes_[location_node].object;
  return location(object, nodes_[location_node].offset + bytes);
}

void PointsTo::collapse(Object object) {
  Fields& fields = objects_[object];
  if (fields.collapsed) return;
  fields.collapsed = true;
  const Node base = fields.at.find(0)->second;
  for (const auto& [offset, n] : fields.at) unite(base, n);
  nodes_[base].offset = 0;
}

// The one with more stays; the other's edges are taken over and its set flows again.
Node PointsTo::unite(Node a, Node b) {
  a = root(a);
  b = root(b);
  if (a == b) return a;
  Data gone = std::move(nodes_[b]);
  nodes_[b] = Data{};
  nodes_[b].parent = a;
  nodes_[b].object = gone.object;
  nodes_[b].offset = gone.offset;
  nodes_[b].queued = gone.queued;  // it may stand in the queue still
  Data& into = nodes_[a];
  const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  append(into.copies, gone.copies);
  append(into.loads, gone.loads);
  append(into.stores, gone.stores);
  append(into.offsets, gone.offsets);
  append(into.watchers, gone.watchers);
  into.points.merge(gone.points);
  into.pending = into.points;
  push(a);
  return a;
}

// Whether copies lead from `from` back to `to`; then all on that way become one.
bool PointsTo::find_circle(Node from, Node to) {
  std::unordered_map<Node, Node> came;
  std::vector<Node> stack{from};
  came.emplace(from, kNoNode);
  while (!stack.empty()) {
    const Node n = stack.back();
    stack.pop_back();
    if (n == to) {
      for (Node step = came[n]; step != kNoNode; step = came[step]) unite(to, step);
      return true;
    }
    for (Node next : nodes_[n].copies) {
      next = root(next);
      if (came.size() < 2000 && came.emplace(next, n).second) stack.push_back(next);
    }
  }
  return false;
}

void PointsTo::flow(Node n) {
  Bits fresh;
  fresh.swap(nodes_[n].pending);
  if (fresh.empty()) return;
  // Copies of the lists: what is called below may add to them, and handles what it adds itself.
  const auto loads = nodes_[n].loads;
  const auto stores = nodes_[n].stores;
  const auto offsets = nodes_[n].offsets;
  const auto watchers = nodes_[n].watchers;
  fresh.each([&](Node l) {
    for (const Node to : loads) copy(to, l);
    for (const Node value : stores) copy(l, value);
    for (const auto& [to, bytes] : offsets) points(to, shift(l, bytes));
    for (const std::uint32_t w : watchers) call(w, l);
  });
  n = root(n);
  std::vector<Node> copies = nodes_[n].copies;
  for (Node& to : copies) to = root(to);
  std::sort(copies.begin(), copies.end());
  copies.erase(std::unique(copies.begin(), copies.end()), copies.end());
  std::erase(copies, n);
  nodes_[n].copies = copies;
  for (const Node target : copies) {
    const Node to = root(target);
    n = root(n);
    if (to == n) continue;
    include(to, fresh);
    // Equal sets along a copy are the sign of a circle.
    if (nodes_[to].points == nodes_[n].points &&
        tried_.emplace((std::uint64_t{n} << 32) | to, true).second) {
      find_circle(to, n);
    }
  }
}

void PointsTo::solve() {
  while (!work_.empty()) {
    const Node n = work_.front();
    work_.pop_front();
    nodes_[n].queued = false;
    if (nodes_[n].parent == kNoNode) flow(n);
  }
}

}  // namespace lint
