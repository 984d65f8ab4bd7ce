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

void Tell(PointsTo& graph, const Constraint& c) {
  if (c.kind == Kind::kCopy) graph.copy(c.a, c.b);
  if (c.kind == Kind::kLoad) graph.load(c.a, c.b);
  if (c.kind == Kind::kStore) graph.store(c.a, c.b);
  if (c.kind == Kind::kOffset) graph.offset(c.a, c.b, 8);
}

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
      all.push_back({static_cast<Kind>(random() % 4), any(variables), any(variables)});
      Tell(graph, all.back());
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

// What is left to work with makes the answer coarse, never wrong: nothing is invented, and it ends.
TEST(PointsTo, IsCoarseWhereItMayWorkLittle) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    PointsTo graph(random() % 60);
    Brute brute;
    std::vector<Node> variables;
    for (int i = 0; i < 8; ++i) variables.push_back(graph.add_variable());
    const auto any = [&](const auto& of) { return of[random() % of.size()]; };
    for (int i = 0; i < 6; ++i) {
      const Node v = any(variables);
      const Object o = graph.add_object(16);
      graph.address(v, graph.location(o, 0));
      brute.variables[v].insert({o, 0});
    }
    std::vector<Constraint> all;
    for (int i = 0; i < 16; ++i) {
      all.push_back({static_cast<Kind>(random() % 4), any(variables), any(variables)});
      Tell(graph, all.back());
    }
    graph.solve();
    brute.run(all);
    for (const Node v : variables) {
      const Bits& found = graph.set(v);
      if (found.test(kAnywhere)) {
        EXPECT_TRUE(graph.is_coarse());
        EXPECT_EQ(found.count(), 1u);
        continue;
      }
      found.each([&](Node l) {
        EXPECT_TRUE(brute.variables[v].contains({graph.object_of(l), graph.offset_of(l)}));
      });
      if (graph.is_coarse()) continue;
      EXPECT_EQ(found.count(), brute.variables[v].size());
    }
  }
}

// Each load waits for the one before: as many waves as there are loads, over what changed only.
TEST(PointsTo, FollowsALongChain) {
  constexpr int kLength = 50'000;
  PointsTo graph;
  Node p = graph.add_variable();
  const Node first = p;
  std::vector<Node> cells;
  for (int i = 0; i < kLength; ++i) cells.push_back(graph.location(graph.add_object(8), 0));
  for (int i = 0; i + 1 < kLength; ++i) {
    const Node next = graph.add_variable();
    graph.load(next, p);
    graph.address(cells[static_cast<std::size_t>(i)], cells[static_cast<std::size_t>(i) + 1]);
    p = next;
  }
  graph.address(first, cells[0]);
  graph.solve();
  EXPECT_TRUE(graph.set(p).test(cells.back()));
  EXPECT_EQ(graph.set(p).count(), 1u);
  EXPECT_FALSE(graph.is_coarse());
}

// Everything leads everywhere.
TEST(PointsTo, EndsWhereEverythingMeets) {
  std::mt19937 random(3);
  PointsTo graph(1'000'000);
  std::vector<Node> variables;
  for (int i = 0; i < 20'000; ++i) {
    variables.push_back(graph.add_variable());
    graph.address(variables.back(), graph.location(graph.add_object(64), 0));
  }
  const auto any = [&] { return variables[random() % variables.size()]; };
  for (int i = 0; i < 25'000; ++i) {
    graph.load(any(), any());
    graph.store(any(), any());
    graph.offset(any(), any(), static_cast<std::int64_t>(random() % 8) * 8);
  }
  std::size_t reports = 0;
  graph.solve([&](std::size_t, std::size_t) { ++reports; });
  EXPECT_GT(reports, 0u);
  EXPECT_TRUE(graph.is_coarse());
}

}  // namespace
}  // namespace lint
