// A program whose profile tells clang's MemProf which of its objects are hot: nodes that are walked
// over and over, made among ten times as many records of the same size that are written once. It
// prints the page utilization of the walk: the bytes of the nodes, of the pages that they lie on.
#include <stdio.h>
#include <string.h>

#include <set>

namespace {

constexpr int kNodes = 2000, kRecordsPerNode = 10, kWalks = 1000;

struct Node {
  Node* next;
  unsigned char body[88];
};

__attribute__((noinline)) Node* MakeNode(Node* next) {
  Node* node = new Node;
  memset(node->body, 1, sizeof(node->body));
  node->next = next;
  return node;
}

__attribute__((noinline)) Node* MakeRecord(Node* next) {
  Node* record = new Node;
  record->next = next;
  return record;
}

void DeleteAll(Node* list) {
  while (list != nullptr) {
    Node* next = list->next;
    delete list;
    list = next;
  }
}

}  // namespace

int main() {
  Node* nodes = nullptr;
  Node* records = nullptr;
  for (int i = 0; i < kNodes; ++i) {
    for (int j = 0; j < kRecordsPerNode; ++j) records = MakeRecord(records);
    nodes = MakeNode(nodes);
  }
  unsigned long sum = 0;
  for (int walk = 0; walk < kWalks; ++walk) {
    for (const Node* n = nodes; n != nullptr; n = n->next)
      for (const unsigned char byte : n->body) sum += byte;
  }
  constexpr size_t kPage = 4096;
  std::set<size_t> pages;
  for (const Node* n = nodes; n != nullptr; n = n->next) {
    pages.insert(reinterpret_cast<size_t>(n) / kPage);
    pages.insert((reinterpret_cast<size_t>(n + 1) - 1) / kPage);
  }
  printf("%.4f %lu\n", static_cast<double>(kNodes * sizeof(Node)) / (pages.size() * kPage), sum);
  DeleteAll(nodes);
  DeleteAll(records);
}
