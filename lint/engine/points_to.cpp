// Waves: circles become one node, sets flow along copies in order, then loads and stores of what is
// new add copies.
#include "points_to.h"

#include <algorithm>

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
  if (nodes_[root(p)].points.set(location_node)) changed_ = true;
}

// What has flowed on already goes along at once, the rest with the next wave.
void PointsTo::copy(Node to, Node from) {
  to = root(to);
  from = root(from);
  if (to == from || !edges_.insert((std::uint64_t{from} << 32) | to).second) return;
  nodes_[from].copies.push_back(to);
  nodes_[to].points.merge(nodes_[from].flowed);
  changed_ = true;
}

// What is asked of a pointer is asked anew of all that it holds.
void PointsTo::load(Node to, Node pointer) {
  Data& data = nodes_[root(pointer)];
  data.loads.push_back(to);
  data.handled.clear();
  changed_ = true;
}

void PointsTo::store(Node pointer, Node value) {
  Data& data = nodes_[root(pointer)];
  data.stores.push_back(value);
  data.handled.clear();
  changed_ = true;
}

void PointsTo::offset(Node to, Node from, std::int64_t bytes) {
  Data& data = nodes_[root(from)];
  data.offsets.emplace_back(to, bytes);
  data.handled.clear();
  changed_ = true;
}

// A copy of the function: the call may add others and move it.
void PointsTo::call(std::uint32_t watch_id, Node location_node) {
  const std::function<void(Node)> found = watches_[watch_id];
  found(location_node);
}

void PointsTo::watch(Node pointer, std::function<void(Node)> found) {
  watches_.push_back(std::move(found));
  Data& data = nodes_[root(pointer)];
  data.watchers.push_back(static_cast<std::uint32_t>(watches_.size() - 1));
  data.handled.clear();
  changed_ = true;
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
  const bool asked = into.asks() || gone.asks();
  append(into.copies, gone.copies);
  append(into.loads, gone.loads);
  append(into.stores, gone.stores);
  append(into.offsets, gone.offsets);
  append(into.watchers, gone.watchers);
  into.points.merge(gone.points);
  into.flowed.clear();
  if (asked) into.handled.clear();
  changed_ = true;
  return a;
}

// Sources before what includes them; what includes each other becomes one. Tarjan's algorithm,
// without recursion.
std::vector<Node> PointsTo::order() {
  const std::size_t count = nodes_.size();
  std::vector<std::uint32_t> index(count, 0), low(count, 0);
  std::vector<char> open(count, 0);
  std::vector<Node> stack, done;
  std::vector<std::pair<Node, std::size_t>> calls;
  std::vector<std::pair<Node, Node>> circles;
  std::uint32_t next = 0;
  for (Node start = 0; start < count; ++start) {
    if (nodes_[start].parent != kNoNode || index[start] != 0) continue;
    calls.emplace_back(start, 0);
    while (!calls.empty()) {
      const Node n = calls.back().first;
      if (calls.back().second == 0) {
        index[n] = low[n] = ++next;
        open[n] = 1;
        stack.push_back(n);
      }
      const std::vector<Node>& copies = nodes_[n].copies;
      bool deeper = false;
      for (std::size_t& at = calls.back().second; at < copies.size();) {
        const Node to = root(copies[at++]);
        if (index[to] == 0) {
          calls.emplace_back(to, 0);
          deeper = true;
          break;
        }
        if (open[to] != 0) low[n] = std::min(low[n], index[to]);
      }
      if (deeper) continue;
      if (copies.empty()) calls.back().second = 1;
      if (low[n] == index[n]) {
        for (Node member = kNoNode; member != n;) {
          member = stack.back();
          stack.pop_back();
          open[member] = 0;
          if (member != n) circles.emplace_back(n, member);
        }
        done.push_back(n);
      }
      calls.pop_back();
      if (!calls.empty()) low[calls.back().first] = std::min(low[calls.back().first], low[n]);
    }
  }
  for (const auto& [a, b] : circles) unite(a, b);
  std::reverse(done.begin(), done.end());
  return done;
}

void PointsTo::wave() {
  for (const Node n : order()) {
    if (nodes_[n].parent != kNoNode) continue;
    std::vector<Node>& copies = nodes_[n].copies;
    if (copies.empty()) continue;
    for (Node& to : copies) to = root(to);
    std::sort(copies.begin(), copies.end());
    copies.erase(std::unique(copies.begin(), copies.end()), copies.end());
    std::erase(copies, n);
    bound(n);
    Bits fresh;
    if (!nodes_[n].flowed.merge(nodes_[n].points, &fresh)) continue;
    for (const Node to : copies) nodes_[to].points.merge(fresh);
  }
}

void PointsTo::handle(Node n) {
  if (nodes_[n].parent != kNoNode || !nodes_[n].asks()) return;
  bound(n);
  Bits fresh;
  if (!nodes_[n].handled.merge(nodes_[n].points, &fresh)) return;
  // Copies of the lists: what is called below may add to them.
  const auto loads = nodes_[n].loads;
  const auto stores = nodes_[n].stores;
  const auto offsets = nodes_[n].offsets;
  const auto watchers = nodes_[n].watchers;
  fresh.each([&](Node l) {
    if (l == kAnywhere) {  // what is stored there is not followed
      for (const Node to : loads) points(to, kAnywhere);
      for (const auto& [to, bytes] : offsets) points(to, kAnywhere);
      return;
    }
    for (const Node to : loads) copy(to, l);
    for (const Node value : stores) copy(l, value);
    for (const auto& [to, bytes] : offsets) {
      if (const Node field = shift(l, bytes); field != kNoNode) points(to, field);
    }
    for (const std::uint32_t w : watchers) call(w, l);
  });
}

void PointsTo::bound(Node n) {
  Bits& all = nodes_[n].points;
  if (!all.test(kAnywhere) && all.count() <= kMostLocations) return;
  all.clear();
  all.set(kAnywhere);
}

// Sets name the locations of objects that became one by their one location.
void PointsTo::make_canonical() {
  for (Node n = 0; n < nodes_.size(); ++n) {
    if (nodes_[n].parent != kNoNode) continue;
    bound(n);
    nodes_[n].flowed.clear();
    nodes_[n].handled.clear();
    bool stale = false;
    nodes_[n].points.each([&](Node l) { stale |= canonical(l) != l; });
    if (!stale) continue;
    Bits all;
    nodes_[n].points.each([&](Node l) { all.set(canonical(l)); });
    nodes_[n].points = std::move(all);
  }
}

void PointsTo::solve() {
  solved_ = false;
  do {
    changed_ = false;
    wave();
    for (Node n = 0; n < nodes_.size(); ++n) handle(n);
  } while (changed_);
  make_canonical();
  solved_ = true;
}

}  // namespace lint
