// The points-to solver against brute force: random constraints, and the sets that a plain loop over
// all of them until nothing changes gives.
#include "points_to.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <tuple>

namespace lint {
namespace {

enum class Kind { kCopy, kLoad, kStore, kOffset };
struct Constraint {
  Kind kind;
  Node a, b;
};

// Variables and objects of two fields; locations as (object, offset).
using Location = std::pair<Object, std::int64_t>;
struct Brute {
  std::map<Node, std::set<Location>> variables;
  std::map<Location, std::set<Location>> memory;

  void run(const std::vector<Constraint>& all) {
    for (bool changed = true; changed;) {
      changed = false;
      const auto add = [&](std::set<Location>& to, const std::set<Location>& from) {
        const std::set<Location> copy = from;
        for (const Location& l : copy) changed |= to.insert(l).second;
      };
      for (const Constraint& c : all) {
        const std::set<Location> of_a = variables[c.a], of_b = variables[c.b];
        if (c.kind == Kind::kCopy) add(variables[c.a], of_b);
        for (const Location& l : of_b) {
          if (c.kind == Kind::kLoad) add(variables[c.a], memory[l]);
          if (c.kind == Kind::kOffset && l.second == 0) add(variables[c.a], {{l.first, 8}});
        }
        for (const Location& l : of_a) {
          if (c.kind == Kind::kStore) add(memory[l], of_b);
        }
      }
    }
  }
};

TEST(PointsTo, IsWhatBruteForceFinds) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    PointsTo graph;
    Brute brute;
    std::vector<Node> variables;
    std::vector<Object> objects;
    for (int i = 0; i < 8; ++i) variables.push_back(graph.add_variable());
    for (int i = 0; i < 4; ++i) objects.push_back(graph.add_object(16));
    const auto any = [&](const auto& of) { return of[random() % of.size()]; };
    for (int i = 0; i < 5; ++i) {
      const Node v = any(variables);
      const Object o = any(objects);
      graph.address(v, graph.location(o, 0));
      brute.variables[v].insert({o, 0});
    }
    std::vector<Constraint> all;
    for (int i = 0; i < 14; ++i) {
      const Constraint c{static_cast<Kind>(random() % 4), any(variables), any(variables)};
      all.push_back(c);
      if (c.kind == Kind::kCopy) graph.copy(c.a, c.b);
      if (c.kind == Kind::kLoad) graph.load(c.a, c.b);
      if (c.kind == Kind::kStore) graph.store(c.a, c.b);
      if (c.kind == Kind::kOffset) graph.offset(c.a, c.b, 8);
      if (random() % 5 == 0) graph.solve();
    }
    graph.solve();
    brute.run(all);
    for (const Node v : variables) {
      std::set<Location> found;
      graph.set(v).each([&](Node l) { found.emplace(graph.object_of(l), graph.offset_of(l)); });
      EXPECT_EQ(found, brute.variables[v]) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace lint
