// What a smart pointer gave out is used after it was reset.
#include <memory>

struct Node {
  int value = 1;
};

int f() {
  std::unique_ptr<Node> owner(new Node);
  Node* node = owner.get();
  owner.reset();
  return node->value;
}
