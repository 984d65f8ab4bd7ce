// A treap of plain pointers, which the compiler pass turns into guides; without the pass the same
// program on malloc. Prints a sum over all answers to a seeded stream of operations.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#ifdef GUIDED
#define GUIDE [[clang::annotate("strata::guided")]]
#define OPERATION [[clang::annotate("strata::operation")]]
#else
#define GUIDE
#define OPERATION
#endif

struct Node {
  Node(uint64_t k, uint64_t v, uint64_t p) : key(k), value(v), priority(p) {}
  uint64_t key, value, priority;
  GUIDE Node* left = nullptr;
  GUIDE Node* right = nullptr;
};
struct Tree {
  GUIDE Node* root = nullptr;
};

static uint64_t g_seed = 1;
static uint64_t Random() {
  g_seed ^= g_seed << 13, g_seed ^= g_seed >> 7, g_seed ^= g_seed << 17;
  return g_seed;
}
static Node* RotateRight(Node* y) {
  Node* x = y->left;
  y->left = x->right;
  x->right = y;
  return x;
}
static Node* RotateLeft(Node* x) {
  Node* y = x->right;
  x->right = y->left;
  y->left = x;
  return y;
}
static Node* Insert(Node* n, uint64_t key, uint64_t value) {
  if (n == nullptr) return new Node(key, value, Random());
  if (key == n->key) {
    n->value = value;
  } else if (key < n->key) {
    n->left = Insert(n->left, key, value);
    if (n->left->priority > n->priority) return RotateRight(n);
  } else {
    n->right = Insert(n->right, key, value);
    if (n->right->priority > n->priority) return RotateLeft(n);
  }
  return n;
}
static Node* Erase(Node* n, uint64_t key) {
  if (n == nullptr) return n;
  if (key < n->key) {
    n->left = Erase(n->left, key);
  } else if (key > n->key) {
    n->right = Erase(n->right, key);
  } else if (n->left == nullptr || n->right == nullptr) {
    Node* child = n->left;
    if (child == nullptr) child = n->right;
    n->left = n->right = nullptr;
    delete n;
    return child;
  } else if (n->left->priority > n->right->priority) {
    n = RotateRight(n);
    n->right = Erase(n->right, key);
  } else {
    n = RotateLeft(n);
    n->left = Erase(n->left, key);
  }
  return n;
}
OPERATION static void Put(Tree& t, uint64_t key, uint64_t value) {
  t.root = Insert(t.root, key, value);
}
OPERATION static void Remove(Tree& t, uint64_t key) { t.root = Erase(t.root, key); }
OPERATION static uint64_t Get(Tree& t, uint64_t key) {
  Node* n = t.root;
  while (n != nullptr && n->key != key) {
    if (key < n->key)
      n = n->left;
    else
      n = n->right;
  }
  return n == nullptr ? 0 : n->value;
}
OPERATION static void Throws(Tree& t) {
  if (t.root != nullptr) throw 1;
}

int main(int argc, char** argv) {
  Tree t;
  if (argc > 1 && argv[1][0] == 'o') return t.root == nullptr ? 0 : 1;  // outside of an operation
  uint64_t sum = 0;
  for (int i = 0; i < 200'000; ++i) {
    const uint64_t what = Random() % 4, key = Random() % 20'000;
    if (what == 0) Put(t, key, Random());
    if (what == 1) Remove(t, key);
    if (what > 1) sum = sum * 31 + Get(t, key);
#ifdef GUIDED
    if (i % 2'000 == 0) strata_hot_collect(strata_hot_domain_default());
#endif
  }
  try {
    Throws(t);
  } catch (int) {
    ++sum;
  }
#ifdef GUIDED
  strata_hot_stats_t s{};
  s.size = sizeof s;
  strata_hot_stats(strata_hot_domain_default(), &s);
  fprintf(stderr, "moves %llu\n", static_cast<unsigned long long>(s.moves));
  if (strata::guided::t_operation.depth != 0) return 1;
#endif
  printf("%llu\n", static_cast<unsigned long long>(sum));
}
