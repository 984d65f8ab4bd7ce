// What people write around pointers of their own: a list as a template with its hook in a base and
// iterators, a tree in a class with const methods and lambdas, tables of slots by value that a
// vector moves. Prints a sum over all answers; the same program with and without the pass.
#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <utility>
#include <vector>
#ifdef GUIDED
#define GUIDE [[clang::annotate("strata::guided")]]
#define OPERATION [[clang::annotate("strata::operation")]]
static void Collect() { strata_hot_collect(strata_hot_domain_default()); }
#else
#define GUIDE
#define OPERATION
static void Collect() {}
#endif

static uint64_t g_seed = 7;
static uint64_t Random() {
  g_seed ^= g_seed << 13, g_seed ^= g_seed >> 7, g_seed ^= g_seed << 17;
  return g_seed;
}

template <class T>
struct Hook {
  GUIDE T* next = nullptr;
};
template <class T>
class List {
 public:
  class iterator {
   public:
    explicit iterator(T* at) : at_(at) {}
    T& operator*() const { return *at_; }
    iterator& operator++() {
      at_ = at_->next;
      return *this;
    }
    bool operator!=(const iterator& o) const { return at_ != o.at_; }

   private:
    T* at_;
  };
  iterator begin() const { return iterator(first_); }
  iterator end() const { return iterator(nullptr); }
  bool empty() const { return !first_; }
  void Push(T* item) {
    item->next = first_;
    first_ = item;
  }
  T* Pop() {
    return Take([](const T&) { return true; });
  }
  template <class Matches>
  T* Take(Matches matches) {
    T* before = nullptr;
    for (T* n = first_; n != nullptr; before = n, n = n->next) {
      if (!matches(*n)) continue;
      if (before)
        before->next = n->next;
      else
        first_ = n->next;
      n->next = nullptr;
      return n;
    }
    return nullptr;
  }

 private:
  GUIDE T* first_ = nullptr;
};
struct Item : Hook<Item> {
  explicit Item(uint64_t k) : key(k) {}
  uint64_t key, hits = 0;
};
static List<Item> g_items;
OPERATION static uint64_t Use(uint64_t key) {
  Item* i = g_items.Take([key](const Item& item) { return item.key == key; });
  if (i == nullptr) i = new Item(key);
  g_items.Push(i);
  return ++i->hits;
}
OPERATION static uint64_t SumOfItems() {
  uint64_t sum = 0;
  for (const Item& i : g_items) sum = sum * 31 + i.key * i.hits;
  return sum;
}

class Map {
 public:
  OPERATION void Put(uint64_t key, uint64_t value) {
    if (!root_) {
      root_ = new Node{key, value};
      return;
    }
    for (Node* n = root_;;) {
      if (n->key == key) {
        n->value = value;
        return;
      }
      Node* next = key < n->key ? n->left : n->right;
      if (next == nullptr) {
        next = new Node{key, value};
        if (key < n->key)
          n->left = next;
        else
          n->right = next;
        return;
      }
      n = next;
    }
  }
  OPERATION std::optional<uint64_t> Get(uint64_t key) const {
    const Node* n = root_;
    while (n != nullptr && n->key != key) n = key < n->key ? n->left : n->right;
    return n == nullptr ? std::nullopt : std::optional(n->value);
  }
  template <class Visit>
  OPERATION void ForEach(Visit visit) const {
    const std::function<void(const Node*)> walk = [&](const Node* n) {
      if (n == nullptr) return;
      walk(n->left);
      visit(n->key, n->value);
      walk(n->right);
    };
    walk(root_);
  }
  OPERATION void Clear() {
    Drop(root_);
    root_ = nullptr;
  }

 private:
  struct Node {
    const uint64_t key;
    uint64_t value;
    GUIDE Node* left{};
    GUIDE Node* right{};
  };
  static void Drop(Node* n) {
    if (n == nullptr) return;
    Drop(n->left);
    Drop(n->right);
    delete n;
  }
  GUIDE Node* root_ = nullptr;
};

struct Blob {
  uint64_t id;
  unsigned char bytes[120];
};
static Blob g_none{1, {}};  // never moves
struct Slot {
  Slot() = default;
  Slot(Slot&& o) noexcept : key(o.key), blobs{o.blobs[0], o.blobs[1]} { o.Forget(); }
  Slot& operator=(Slot&& o) noexcept {
    key = o.key;
    for (int i = 0; i < 2; ++i) blobs[i] = o.blobs[i];
    o.Forget();
    return *this;
  }
  void Forget() { blobs[0] = blobs[1] = nullptr; }
  uint64_t key = 0;
  GUIDE Blob* blobs[2] = {};
};
struct Rows {
  std::vector<Slot> all;
  std::array<Slot, 3> kept;
  GUIDE Blob* grid[2][40] = {{&g_none, nullptr, &g_none}};
};
OPERATION static void Grow(Rows& r) {
  r.all.emplace_back();  // which moves them all now and then
  r.all.back().key = Random() % 100;
  r.all.back().blobs[Random() % 2] = new Blob{Random(), {}};
}
OPERATION static void Shuffle(Rows& r) {
  const auto [i, j] = std::pair(Random() % r.all.size(), Random() % r.all.size());
  std::swap(r.all[i], r.all[j]);
  r.kept[i % 3] = std::move(r.all[i]);
  r.all[i] = std::move(r.kept[i % 3]);
  Blob* const row[] = {r.all[i].blobs[0], r.all[j].blobs[1]};
  if (row[0] != nullptr) ++row[0]->bytes[j % 120];
}
OPERATION static uint64_t Sum(const Rows& r) {
  uint64_t sum = 0;
  for (const Slot& s : r.all) {
    auto& [key, blobs] = s;
    for (int i = 0; i < 2; ++i)
      if (const Blob* b = s.blobs[i]) sum = sum * 31 + b->id + b->bytes[key % 120];
  }
  for (int i = 0; i < 40; ++i) sum += r.grid[0][i] == &g_none;
  return sum;
}
OPERATION static void Clear(Rows& r) {
  for (Slot& s : r.all) {
    delete s.blobs[0];
    delete s.blobs[1];
    s.Forget();
  }
  r.all.clear();
  while (!g_items.empty()) delete g_items.Pop();
}

int main() {
  Map map;
  Rows rows;
  uint64_t sum = 0;
  for (int i = 0; i < 20'000; ++i) {
    sum = sum * 31 + Use(Random() % 100);
    map.Put(Random() % 2'000, Random());
    sum = sum * 31 + map.Get(Random() % 2'000).value_or(5);
    if (rows.all.size() < 400) Grow(rows);
    Shuffle(rows);
    if (i % 200 != 0) continue;
    Collect();
    sum = sum * 31 + Sum(rows) + SumOfItems();
    map.ForEach([&sum](uint64_t key, uint64_t value) { sum = sum * 31 + key + value; });
  }
  map.Clear();
  Clear(rows);
#ifdef GUIDED
  strata_hot_stats_t s{};
  s.size = sizeof s;
  strata_hot_stats(strata_hot_domain_default(), &s);
  fprintf(stderr, "moves %llu\n", static_cast<unsigned long long>(s.moves));
  if (s.heap[0].objects + s.heap[1].objects + s.heap[2].objects != 0) return 1;
#endif
  printf("%llu\n", static_cast<unsigned long long>(sum));
}
