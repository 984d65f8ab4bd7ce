// Programs with objects that move, each kept from it in one way, and, with a second argument, as
// the report's advice wants them. Each says "ready" and goes on as it is.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

#include "strata/hot_ptr.h"

namespace {

struct Node {
  char bytes[200];
};
using Nodes = std::vector<strata::hot_ptr<Node>>;

void Sleep(long ms) {
  const timespec time{ms / 1000, ms % 1000 * 1'000'000};
  nanosleep(&time, nullptr);
}

// Others each time, so that there is always something to move.
void Use(strata::hot_scope& scope, const Nodes& nodes, int round, size_t count = 40) {
  for (size_t i = 0; i < count; ++i)
    nodes[(static_cast<size_t>(round) * count + i) % nodes.size()].get(scope)->bytes[0] = 1;
}

Nodes Make(strata::hot_domain& domain) {
  Nodes nodes;
  for (int i = 0; i < 20'000; ++i) nodes.push_back(domain.make<Node>());
  return nodes;
}

// Nobody collects.
void Alone(bool followed) {
  strata::hot_domain::options options;
  options.thread = false;
  strata::hot_domain domain{options};
  const Nodes nodes = Make(domain);
  for (int i = 0;; ++i) {
    {
      strata::hot_scope scope(domain);
      Use(scope, nodes, i);
    }
    if (followed) domain.collect_now();
    if (i == 20) puts("ready"), fflush(stdout);
    Sleep(20);
  }
}

// An operation waits for something, or uses much for long.
void Waits(size_t count, bool followed) {
  strata::hot_domain::options options;
  options.period_ms = 20;
  options.cpu_share = 1;
  strata::hot_domain domain{options};
  const Nodes nodes = Make(domain);
  for (int i = 0;; ++i) {
    {
      strata::hot_scope scope(domain);
      Use(scope, nodes, i, followed ? 40 : count);
      if (!followed) Sleep(300);
    }
    if (followed) Sleep(300);
    if (i == 10) puts("ready"), fflush(stdout);
  }
}

// All is used in turn, in 50 steps: later than the windows wait, or not. A window is that many
// steps of the program's own, however long they take: with nothing used in it, by a program that
// had to wait for its CPU, the policy would take its wait back.
void Turns(int steps) {
  strata::hot_domain::options options;
  options.thread = false;
  strata::hot_domain domain{options};
  Nodes nodes;
  for (int i = 0; i < 2000; ++i) nodes.push_back(domain.make<Node>());
  for (int i = 1;; ++i) {
    {
      strata::hot_scope scope(domain);
      Use(scope, nodes, i);
    }
    if (i % steps == 0) domain.collect_now();
    if (i == 1000) puts("ready"), fflush(stdout);
    Sleep(1);
  }
}

// Objects come, are never used, and go: there is always something to move. They are many, so that a
// round takes long by any machine's clock, and small: 1 MiB of cold ones would be more urgent.
void Passing(uint32_t period_ms) {
  strata::hot_domain::options options;
  options.period_ms = period_ms;
  options.cpu_share = 1;
  strata::hot_domain domain{options};
  std::vector<strata::hot_ptr<uint64_t>> nodes(40'000);
  for (size_t i = 0;; ++i) {
    for (size_t j = 0; j < 400; ++j) nodes[(400 * i + j) % nodes.size()] = domain.make<uint64_t>();
    if (i == 100) puts("ready"), fflush(stdout);
    Sleep(5);
  }
}

// A little of it is used, beside so many MiB that do not move.
void Idle(size_t mib) {
  strata::hot_domain::options options;
  options.period_ms = 50;
  options.cpu_share = 1;
  strata::hot_domain domain{options};
  const std::vector<char> others(mib << 20, 1);
  const Nodes nodes = Make(domain);
  for (int i = 0;; ++i) {
    {
      strata::hot_scope scope(domain);
      Use(scope, nodes, i % 8);
    }
    if (i == 20) puts("ready"), fflush(stdout);
    Sleep(50);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int n = argc > 2 ? atoi(argv[2]) : 0;
  const bool followed = n != 0;
  if (argc > 1 && !strcmp(argv[1], "alone")) Alone(followed);
  if (argc > 1 && !strcmp(argv[1], "waits")) Waits(40, followed);
  if (argc > 1 && !strcmp(argv[1], "many")) Waits(2000, followed);
  if (argc > 1 && !strcmp(argv[1], "turns")) Turns(n);
  if (argc > 1 && !strcmp(argv[1], "passing")) Passing(static_cast<uint32_t>(n));
  if (argc > 1 && !strcmp(argv[1], "idle")) Idle(static_cast<size_t>(n));
  return 2;
}
