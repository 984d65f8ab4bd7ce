// Circles become one node; then, in waves, what is new in a set flows along its copies, and loads
// and stores of it add copies: in the order of the copies, and only where something is new.
#include "points_to.h"

#include <algorithm>

#include "circles.h"

namespace lint {

Node PointsTo::add_variable() {
  nodes_.emplace_back();
  return static_cast<Node>(nodes_.size() - 1);
}

Object PointsTo::add_object(std::int64_t size) {
  objects_.emplace_back().size = size;
  const auto object = static_cast<Object>(objects_.size() - 1);
  location(object, 0);
  return object;
}

Node PointsTo::location(Object object, std::int64_t offset) {
  Fields& fields = objects_[object];
  if (fields.size != 0 && (offset < 0 || offset >= fields.size)) return kNoNode;
  if (fields.collapsed || offset < 0) offset = 0;
  if (const auto found = fields.at.find(offset); found != fields.at.end()) return found->second;
  if (solved_ && fields.at.size() >= kMostFields) return fields.at.find(0)->second;
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

void PointsTo::points(Node p, Node location_node) {
  p = root(p);
  if (!nodes_[p].points.test(kAnywhere) && nodes_[p].points.set(location_node)) touch(p);
}

void PointsTo::touch(Node n) {
  Data& data = nodes_[n];
  if (data.waits) return;
  data.waits = true;
  (data.rank > passed_ ? wave_ : next_).emplace(data.rank, n);
}

void PointsTo::spend(std::uint64_t words) {
  since_order_ += words;
  work_left_ -= std::min(work_left_, words);
}

void PointsTo::flow(Node to, const Bits& locations) {
  spend(locations.words() + 1);
  if (!nodes_[to].points.test(kAnywhere) && nodes_[to].points.merge(locations)) touch(to);
}

// What has flowed on already goes along at once, the rest when it does.
void PointsTo::copy(Node to, Node from) {
  to = root(to);
  from = root(from);
  spend(1);
  if (to != from && nodes_[from].copies.set(to)) flow(to, nodes_[from].done);
}

void PointsTo::load_from(Node to, Node location_node) {
  if (location_node == kAnywhere)
    points(to, kAnywhere);
  else
    copy(to, location_node);
}

void PointsTo::store_at(Node location_node, Node value) {
  if (location_node != kAnywhere) copy(location_node, value);  // what goes anywhere is not followed
}

void PointsTo::offset_from(Node to, Node location_node, std::int64_t bytes) {
  const Node field = location_node == kAnywhere ? kAnywhere : shift(location_node, bytes);
  if (field != kNoNode) points(to, field);
}

// What is asked of a pointer is asked of all that others have heard of already.
void PointsTo::load(Node to, Node pointer) {
  pointer = root(pointer);
  nodes_[pointer].loads.push_back(to);
  Bits(nodes_[pointer].done).each([&](Node l) { load_from(to, l); });
}

void PointsTo::store(Node pointer, Node value) {
  pointer = root(pointer);
  nodes_[pointer].stores.push_back(value);
  Bits(nodes_[pointer].done).each([&](Node l) { store_at(l, value); });
}

void PointsTo::offset(Node to, Node from, std::int64_t bytes) {
  from = root(from);
  nodes_[from].offsets.emplace_back(to, bytes);
  Bits(nodes_[from].done).each([&](Node l) { offset_from(to, l, bytes); });
}

// A copy of the function: the call may add others and move it.
void PointsTo::call(std::uint32_t watch_id, Node location_node) {
  if (location_node == kAnywhere) return;
  const std::function<void(Node)> found = watches_[watch_id];
  found(location_node);
}

void PointsTo::watch(Node pointer, std::function<void(Node)> found) {
  pointer = root(pointer);
  watches_.push_back(std::move(found));
  const auto id = static_cast<std::uint32_t>(watches_.size() - 1);
  nodes_[pointer].watchers.push_back(id);
  Bits(nodes_[pointer].done).each([&](Node l) { call(id, l); });
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

Node PointsTo::unite(Node a, Node b) {
  a = root(a);
  b = root(b);
  if (a == b) return a;
  Data gone = std::move(nodes_[b]);
  nodes_[b] = Data{};
  nodes_[b].parent = a;
  nodes_[b].object = gone.object;
  nodes_[b].offset = gone.offset;
  Data& into = nodes_[a];
  const auto append = [](auto& to, const auto& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  append(into.loads, gone.loads);
  append(into.stores, gone.stores);
  append(into.offsets, gone.offsets);
  append(into.watchers, gone.watchers);
  into.copies.merge(gone.copies);
  into.points.merge(gone.points);
  into.done.keep(gone.done);
  touch(a);
  return a;
}

// Sources before what includes them; what includes each other becomes one.
void PointsTo::order() {
  Graph graph;
  for (Node n = 0; n < nodes_.size(); ++n) {
    nodes_[n].copies.each([&](Node to) { graph.targets.push_back(root(to)); });
    graph.end_node();
  }
  const Components found = components(graph);
  std::vector<Node> first(found.count, kNoNode);
  for (Node n = 0; n < graph.size(); ++n) {
    if (nodes_[n].parent != kNoNode) continue;
    Node& one = first[found.of[n]];
    if (one == kNoNode)
      one = n;
    else
      unite(one, n);
  }
  for (const Node n : first) {
    if (n != kNoNode) tidy(n);
  }
  for (Node n = 0; n < graph.size(); ++n) nodes_[n].rank = found.count - found.of[n];
  edges_ = graph.targets.size();
  spend(nodes_.size() + edges_);
  since_order_ = 0;
  queue_anew();
}

// Copies to what has become one are one.
void PointsTo::tidy(Node n) {
  std::vector<Node> roots;
  nodes_[n].copies.each([&](Node to) { roots.push_back(root(to)); });
  std::sort(roots.begin(), roots.end());
  nodes_[n].copies.clear();
  for (const Node to : roots) {
    if (to != n) nodes_[n].copies.set(to);
  }
}

// Ranks have changed.
void PointsTo::queue_anew() {
  wave_ = {};
  next_ = {};
  passed_ = 0;
  for (Node n = 0; n < nodes_.size(); ++n) {
    if (nodes_[n].waits && nodes_[n].parent == kNoNode) wave_.emplace(nodes_[n].rank, n);
  }
}

void PointsTo::visit(Node n) {
  nodes_[n].waits = false;
  bound(n, limit_);
  Bits fresh;
  if (!nodes_[n].done.merge(nodes_[n].points, &fresh)) return;
  nodes_[n].copies.each([&](Node to) {
    to = root(to);
    if (to != n) flow(to, fresh);
  });
  if (!nodes_[n].asks()) return;
  // Copies of the lists: what is called below may add to them.
  const auto loads = nodes_[n].loads;
  const auto stores = nodes_[n].stores;
  const auto offsets = nodes_[n].offsets;
  const auto watchers = nodes_[n].watchers;
  fresh.each([&](Node l) {
    spend(loads.size() + stores.size() + offsets.size() + watchers.size());
    for (const Node to : loads) load_from(to, l);
    for (const Node value : stores) store_at(l, value);
    for (const auto& [to, bytes] : offsets) offset_from(to, l, bytes);
    for (const std::uint32_t w : watchers) call(w, l);
  });
}

void PointsTo::bound(Node n, std::size_t most) {
  Data& data = nodes_[n];
  spend(data.points.words());
  if (data.points.empty() || (!data.points.test(kAnywhere) && data.points.count() <= most)) return;
  data.points.clear();
  data.points.set(kAnywhere);
  data.done.keep(data.points);
}

// Sets name the locations of objects that became one by their one location.
void PointsTo::make_canonical() {
  for (Node n = 0; n < nodes_.size(); ++n) {
    if (nodes_[n].parent != kNoNode) continue;
    bound(n, kMostLocations);
    bool stale = false;
    nodes_[n].points.each([&](Node l) { stale |= canonical(l) != l; });
    if (!stale) continue;
    Bits all;
    nodes_[n].points.each([&](Node l) { all.set(canonical(l)); });
    nodes_[n].points = std::move(all);
    nodes_[n].done = nodes_[n].points;
  }
}

void PointsTo::solve(const std::function<void(std::size_t, std::size_t)>& progress) {
  solved_ = false;
  order();
  std::size_t visited = 0;
  const std::uint64_t chunk = work_left_ / 4 + 1;
  while (!wave_.empty() || !next_.empty()) {
    // Circles are looked for as long as that takes less time than the rest.
    if (since_order_ > 2 * nodes_.size() + edges_) order();
    if (work_left_ == 0 && limit_ != 0) {
      limit_ /= 8;
      work_left_ = chunk;
    }
    if (wave_.empty()) {
      wave_.swap(next_);
      passed_ = 0;
    }
    const auto [rank, n] = wave_.top();
    wave_.pop();
    if (nodes_[n].parent != kNoNode || !nodes_[n].waits) continue;
    passed_ = rank;
    visit(n);
    if ((++visited & 4095) == 0 && progress)
      progress(visited, visited + wave_.size() + next_.size());
  }
  make_canonical();
  solved_ = true;
}

}  // namespace lint
