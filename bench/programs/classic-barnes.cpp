// Gravitation among many bodies after Barnes and Hut (1986): an octree is built anew in each step,
// each cell a block of its own, and freed when the forces are known. The momentum of the whole,
// which no force changes, is checked at the end.
#include <algorithm>
#include <cmath>
#include <vector>

#include "common.h"

namespace {

struct Vec {
  double x = 0, y = 0, z = 0;
  Vec operator+(const Vec& o) const { return {x + o.x, y + o.y, z + o.z}; }
  Vec operator-(const Vec& o) const { return {x - o.x, y - o.y, z - o.z}; }
  Vec operator*(double k) const { return {x * k, y * k, z * k}; }
  double Norm2() const { return x * x + y * y + z * z; }
};

struct Body {
  double mass = 0;
  Vec at, velocity, force;
};

// A leaf has a list of bodies of its own; a cell has eight children, some of them null.
struct Node {
  bool leaf;
};
struct Link {
  Body* body;
  Link* next;
};
struct Leaf : Node {
  Link* bodies = nullptr;
  int count = 0;
  Leaf() : Node{true} {}
};
struct Cell : Node {
  double mass = 0;
  Vec center;  // of mass
  Node* child[8] = {};
  Cell() : Node{false} {}
};

constexpr double kOpening = 0.8;  // a cell that looks smaller than this is one body
constexpr double kSoftening = 0.05;
constexpr double kStep = 0.001;
constexpr int kLeafBodies = 2;
constexpr int kDeepest = 40;

uint64_t g_blocks = 0;

size_t Octant(const Vec& at, const Vec& middle) {
  return (at.x >= middle.x ? 1u : 0u) + (at.y >= middle.y ? 2u : 0u) + (at.z >= middle.z ? 4u : 0u);
}

Vec MiddleOf(size_t octant, const Vec& middle, double half) {
  const double quarter = half / 2;
  return middle + Vec{octant & 1 ? quarter : -quarter, octant & 2 ? quarter : -quarter,
                      octant & 4 ? quarter : -quarter};
}

Leaf* NewLeaf() {
  ++g_blocks;
  return new Leaf;
}

void AddTo(Leaf* leaf, Body* b) {
  ++g_blocks;
  leaf->bodies = new Link{b, leaf->bodies};
  ++leaf->count;
}

// Puts the body into the tree at `node`, a cube around `middle`; returns what is there now.
Node* Insert(Node* node, Body* b, const Vec& middle, double half, int depth) {
  if (node == nullptr) node = NewLeaf();
  if (node->leaf) {
    auto* leaf = static_cast<Leaf*>(node);
    AddTo(leaf, b);
    if (leaf->count <= kLeafBodies || depth == kDeepest) return leaf;
    ++g_blocks;
    auto* cell = new Cell;
    for (Link* l = leaf->bodies; l != nullptr;) {
      Link* next = l->next;
      const size_t octant = Octant(l->body->at, middle);
      cell->child[octant] =
          Insert(cell->child[octant], l->body, MiddleOf(octant, middle, half), half / 2, depth + 1);
      delete l;
      l = next;
    }
    delete leaf;
    return cell;
  }
  auto* cell = static_cast<Cell*>(node);
  const size_t octant = Octant(b->at, middle);
  cell->child[octant] =
      Insert(cell->child[octant], b, MiddleOf(octant, middle, half), half / 2, depth + 1);
  return cell;
}

// Mass and center of all cells below; returns those of `node`.
Body Weigh(Node* node) {
  Body sum;
  const auto add = [&](double mass, const Vec& at) {
    sum.mass += mass;
    sum.at = sum.at + at * mass;
  };
  if (node->leaf) {
    for (const Link* l = static_cast<Leaf*>(node)->bodies; l != nullptr; l = l->next)
      add(l->body->mass, l->body->at);
  } else {
    auto* cell = static_cast<Cell*>(node);
    for (Node* child : cell->child) {
      if (child == nullptr) continue;
      const Body part = Weigh(child);
      add(part.mass, part.at);
    }
    cell->mass = sum.mass;
    cell->center = sum.at * (1 / sum.mass);
  }
  sum.at = sum.at * (1 / sum.mass);
  return sum;
}

Vec Pull(const Body& b, double mass, const Vec& at) {
  const Vec gap = at - b.at;
  const double r2 = gap.Norm2() + kSoftening * kSoftening;
  return gap * (b.mass * mass / (r2 * std::sqrt(r2)));
}

Vec ForceOn(const Body& b, const Node* node, double side) {
  Vec force;
  if (node->leaf) {
    for (const Link* l = static_cast<const Leaf*>(node)->bodies; l != nullptr; l = l->next) {
      if (l->body != &b) force = force + Pull(b, l->body->mass, l->body->at);
    }
    return force;
  }
  const auto* cell = static_cast<const Cell*>(node);
  if (side * side < kOpening * kOpening * (cell->center - b.at).Norm2())
    return Pull(b, cell->mass, cell->center);
  for (const Node* child : cell->child) {
    if (child != nullptr) force = force + ForceOn(b, child, side / 2);
  }
  return force;
}

void FreeTree(Node* node) {
  if (node->leaf) {
    auto* leaf = static_cast<Leaf*>(node);
    for (Link* l = leaf->bodies; l != nullptr;) {
      Link* next = l->next;
      delete l;
      l = next;
    }
    delete leaf;
    return;
  }
  auto* cell = static_cast<Cell*>(node);
  for (Node* child : cell->child) {
    if (child != nullptr) FreeTree(child);
  }
  delete cell;
}

void Step(std::vector<Body*>& bodies) {
  double half = 1;
  for (const Body* b : bodies)
    half = std::max({half, std::fabs(b->at.x), std::fabs(b->at.y), std::fabs(b->at.z)});
  half *= 1.001;
  Node* tree = nullptr;
  for (Body* b : bodies) tree = Insert(tree, b, {}, half, 0);
  Weigh(tree);
  for (Body* b : bodies) b->force = ForceOn(*b, tree, 2 * half);
  FreeTree(tree);
  for (Body* b : bodies) {
    b->velocity = b->velocity + b->force * (kStep / b->mass);
    b->at = b->at + b->velocity * kStep;
  }
}

Vec Momentum(const std::vector<Body*>& bodies) {
  Vec sum;
  for (const Body* b : bodies) sum = sum + b->velocity * b->mass;
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const size_t count = options.Count("bodies", 20'000);
  const auto steps = static_cast<uint64_t>(options.Scaled("steps", 12) + 0.999);
  options.RejectUnknown();
  if (count < 2) bench::Die("--bodies above one");

  // A cloud that is denser in the middle.
  bench::Random random(3);
  const auto unit = [&] { return static_cast<double>(random.Below(2'000'001)) * 1e-6 - 1; };
  std::vector<Body*> bodies;
  for (size_t i = 0; i < count; ++i) {
    auto* b = new Body;
    b->mass = 1 / static_cast<double>(count);
    const double radius = std::fabs(unit() * unit());
    b->at = Vec{unit(), unit(), unit()} * radius;
    b->velocity = Vec{-b->at.y, b->at.x, 0} * 0.5;
    bodies.push_back(b);
  }

  const Vec before = Momentum(bodies);
  bench::Total total;
  total.threads = 1;
  const uint64_t start = bench::NowNs();
  for (uint64_t step = 0; step < steps; ++step) Step(bodies);
  total.busy = total.longest = bench::Since(start);
  total.ops = g_blocks;
  // A cell pulls as its middle does, so the sum of all forces is near to zero, not zero.
  if ((Momentum(bodies) - before).Norm2() > 1e-4) bench::Die("the momentum has changed");
  for (Body* b : bodies) delete b;

  bench::Report report("classic-barnes");
  report.Add("bodies=%zu steps=%llu", count, static_cast<unsigned long long>(steps));
  report.Rate(total);
  report.Finish();
  return 0;
}
