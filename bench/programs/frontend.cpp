// A compiler's front end: functions of a small language are parsed into trees, names are looked up
// in nested tables, constants are folded into new nodes, and code for a stack machine is written
// out; what a function needed goes with it. --heap: bump, reap or malloc.
// build flags: -lstrata
#include "regions.h"

namespace {

struct Node {
  char op;  // 'n' a number, 'v' a variable, else an operator; '=' and '{' at statements
  int64_t value;
  Node* left;
  Node* right;
  Node* next;  // in a block
};

struct Name {
  Name* next;
  uint32_t hash;
  uint32_t slot;
  char text[1];  // and what follows
};

struct Table {
  static constexpr size_t kBuckets = 16;
  Table* outer;
  Name* buckets[kBuckets];
};

// Random functions: assignments of expressions, in nested blocks.
class Source {
 public:
  Source(size_t functions, uint64_t seed) : random_(seed), out_(functions * (64 << 10)) {
    for (size_t i = 0; i < functions; ++i) Block(0);
    Put('\0');
  }
  const char* text() { return out_.data(); }

 private:
  void Put(char c) {
    if (used_ == out_.size()) bench::Die("the source outgrew its buffer");
    out_[used_++] = c;
  }
  void Variable() {
    const uint64_t which = random_.Below(40);
    for (uint64_t i = 0; i < 3 + which % 7; ++i) Put(static_cast<char>('a' + (which + i) % 26));
  }
  void Expression(int depth) {
    const uint64_t what = random_.Below(depth > 5 ? 2 : 6);
    if (what == 0) return Variable();
    if (what == 1) {
      for (uint64_t n = random_.Between(1, 4); n != 0; --n)
        Put(static_cast<char>('1' + random_.Below(9)));
      return;
    }
    Put('(');
    Expression(depth + 1);
    Put("+-*^"[random_.Below(4)]);
    Expression(depth + 1);
    Put(')');
  }
  void Block(int depth) {
    Put('{');
    for (uint64_t n = random_.Between(4, 20); n != 0; --n) {
      if (depth < 3 && random_.Below(6) == 0) {
        Block(depth + 1);
        continue;
      }
      Variable();
      Put('=');
      Expression(0);
      Put(';');
    }
    Put('}');
  }

  bench::Random random_;
  bench::Array<char> out_;
  size_t used_ = 0;
};

template <class Memory>
class FrontEnd {
 public:
  explicit FrontEnd(Memory& memory) : memory_(memory) {}

  // Compiles one function; returns where the next begins.
  const char* Function(const char* at) {
    at_ = at;
    Node* body = Block();
    Fold(body);
    Emit(body);
    if (!Memory::kWhole) {
      Free(body);
      memory_.Free(code_);
    }
    return at_;
  }
  uint64_t allocations() const { return allocations_; }
  uint64_t sum() const { return sum_; }

 private:
  void* Get(size_t size) {
    ++allocations_;
    return memory_.Allocate(size);
  }
  Node* Make(char op, Node* left, Node* right, int64_t value = 0) {
    return new (Get(sizeof(Node))) Node{op, value, left, right, nullptr};
  }

  int64_t Look(const char* begin, size_t length) {
    uint32_t hash = 17;
    for (size_t i = 0; i < length; ++i) hash = hash * 31 + static_cast<unsigned char>(begin[i]);
    for (const Table* t = names_; t != nullptr; t = t->outer) {
      for (const Name* n = t->buckets[hash % Table::kBuckets]; n != nullptr; n = n->next) {
        if (n->hash == hash && strncmp(n->text, begin, length) == 0) return n->slot;
      }
    }
    auto* n = static_cast<Name*>(Get(sizeof(Name) + length));
    Name** bucket = &names_->buckets[hash % Table::kBuckets];
    n->next = *bucket;
    n->hash = hash;
    n->slot = slots_++;
    memcpy(n->text, begin, length);
    n->text[length] = '\0';
    *bucket = n;
    return n->slot;
  }
  [[gnu::noinline]] Node* Variable() {
    const char* begin = at_;
    while (*at_ >= 'a') ++at_;
    return Make('v', nullptr, nullptr, Look(begin, static_cast<size_t>(at_ - begin)));
  }
  [[gnu::noinline]] Node* Expression() {
    if (*at_ == '(') {
      ++at_;
      Node* left = Expression();
      const char op = *at_++;
      Node* right = Expression();
      ++at_;
      return Make(op, left, right);
    }
    if (*at_ >= 'a') return Variable();
    int64_t n = 0;
    for (; *at_ >= '0' && *at_ <= '9'; ++at_) n = n * 10 + (*at_ - '0');
    return Make('n', nullptr, nullptr, n);
  }
  [[gnu::noinline]] Node* Block() {
    auto* table = new (Get(sizeof(Table))) Table{names_, {}};
    names_ = table;
    Node* block = Make('{', nullptr, nullptr);
    Node** end = &block->left;
    for (++at_; *at_ != '}';) {
      Node* statement;
      if (*at_ == '{') {
        statement = Block();
      } else {
        Node* to = Variable();
        ++at_;
        statement = Make('=', to, Expression());
        ++at_;
      }
      *end = statement;
      end = &statement->next;
    }
    ++at_;
    names_ = table->outer;
    FreeTable(table);
    return block;
  }
  void FreeTable(Table* table) {
    if (Memory::kWhole) return;
    for (Name* n : table->buckets) {
      while (n != nullptr) {
        Name* next = n->next;
        memory_.Free(n);
        n = next;
      }
    }
    memory_.Free(table);
  }

  static int64_t Apply(char op, int64_t a, int64_t b) {
    const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    return static_cast<int64_t>(op == '+' ? x + y : op == '-' ? x - y : op == '*' ? x * y : x ^ y);
  }
  // A new node in place of an operation on two constants.
  Node* Folded(Node* n) {
    Fold(n);
    if (n->left == nullptr || n->left->op != 'n' || n->right->op != 'n') return n;
    Node* made = Make('n', nullptr, nullptr, Apply(n->op, n->left->value, n->right->value));
    if (!Memory::kWhole) {
      memory_.Free(n->left);
      memory_.Free(n->right);
      memory_.Free(n);
    }
    return made;
  }
  [[gnu::noinline]] void Fold(Node* n) {
    if (n->op == '{') {
      for (Node* s = n->left; s != nullptr; s = s->next) Fold(s);
    } else if (n->op == '=') {
      n->right = Folded(n->right);
    } else if (n->left != nullptr) {
      n->left = Folded(n->left);
      n->right = Folded(n->right);
    }
  }

  void Write(int64_t word) {
    if (used_ == room_) {
      room_ = room_ == 0 ? 64 : room_ * 2;
      auto* larger = static_cast<int64_t*>(Get(room_ * sizeof(int64_t)));
      if (code_ != nullptr) {
        memcpy(larger, code_, used_ * sizeof(int64_t));
        if (!Memory::kWhole) memory_.Free(code_);
      }
      code_ = larger;
    }
    code_[used_++] = word;
    sum_ = sum_ * 31 + static_cast<uint64_t>(word);
  }
  [[gnu::noinline]] void Emit(const Node* n) {
    if (n->op == '{') {
      for (const Node* s = n->left; s != nullptr; s = s->next) Emit(s);
      return;
    }
    if (n->left != nullptr && n->op != '=') Emit(n->left);
    if (n->right != nullptr) Emit(n->right);
    Write(n->op);
    Write(n->op == '=' ? n->left->value : n->value);
  }
  void Free(Node* n) {
    if (n->op == '{') {
      for (Node* s = n->left; s != nullptr;) {
        Node* next = s->next;
        Free(s);
        s = next;
      }
    } else if (n->left != nullptr) {
      Free(n->left);
      Free(n->right);
    }
    memory_.Free(n);
  }

  Memory& memory_;
  const char* at_ = nullptr;
  Table* names_ = nullptr;
  uint32_t slots_ = 0;
  int64_t* code_ = nullptr;
  size_t used_ = 0;
  size_t room_ = 0;
  uint64_t sum_ = 0;
  uint64_t allocations_ = 0;
};

template <class Memory>
bench::Total Run(double seconds, const char* source, uint64_t* sum) {
  return bench::RunThreads(1, [&](unsigned) {
    Memory memory;
    return bench::RunFor(seconds, [&]() -> uint64_t {
      uint64_t done = 0;
      *sum = 0;
      for (const char* at = source; *at != '\0';) {
        memory.Begin();
        FrontEnd<Memory> frontend(memory);
        at = frontend.Function(at);
        memory.End();
        done += frontend.allocations();
        *sum += frontend.sum();
      }
      return done;
    });
  });
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const char* heap = options.Text("heap", "reap");
  const size_t functions = options.Count("functions", 100);
  const double seconds = options.Scaled("seconds", 0.5);
  options.RejectUnknown();
  Source source(functions, 1);
  uint64_t sum = 0;
  const bench::Total total = bench::WithMemory(
      heap, [&]<class Memory>() { return Run<Memory>(seconds, source.text(), &sum); });
  bench::Report report("frontend");
  report.Rate(total);
  report.Add("sum=%llu", static_cast<unsigned long long>(sum));
  report.Finish();
  return 0;
}
