// Parses programs of a small language into trees, folds their constants, evaluates them, and frees
// them: nodes of several sizes and the text of their names, allocated in the order of the text and
// freed in that of the tree, as compilers and interpreters do. Names that occur live on in a table.
// The value of each program is compared with that of the generator, which computes it on the way.
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common.h"

namespace {

constexpr uint32_t kModulus = 1'000'003;
constexpr size_t kNames = 400;

uint64_t g_nodes = 0;

struct Symbol {
  std::string name;
  uint32_t value = 0;
};
using Table = std::unordered_map<std::string, Symbol*>;

// ---- the tree

enum class Kind : uint8_t { kNumber, kName, kUnary, kBinary, kCall, kAssign };

struct Node {
  Kind kind;
  explicit Node(Kind k) : kind(k) { ++g_nodes; }
};
struct Number : Node {
  uint32_t value;
  explicit Number(uint32_t v) : Node(Kind::kNumber), value(v) {}
};
struct Name : Node {
  Symbol* symbol;
  char* spelling;  // as in the text
  Name(Symbol* s, std::string_view text) : Node(Kind::kName), symbol(s), spelling(Copy(text)) {}
  ~Name() { free(spelling); }
  static char* Copy(std::string_view text) {
    auto* copy = static_cast<char*>(bench::CheckedMalloc(text.size() + 1));
    memcpy(copy, text.data(), text.size());
    copy[text.size()] = '\0';
    return copy;
  }
};
struct Unary : Node {
  Node* operand;
  explicit Unary(Node* o) : Node(Kind::kUnary), operand(o) {}
};
struct Binary : Node {
  char op;
  Node* left;
  Node* right;
  Binary(char o, Node* l, Node* r) : Node(Kind::kBinary), op(o), left(l), right(r) {}
};
struct Call : Node {  // the sum of its arguments
  std::vector<Node*> arguments;
  Call() : Node(Kind::kCall) {}
};
struct Assign : Node {
  Name* target;
  Node* value;
  Assign(Name* t, Node* v) : Node(Kind::kAssign), target(t), value(v) {}
};

void Free(Node* n) {
  switch (n->kind) {
    case Kind::kNumber:
      return delete static_cast<Number*>(n);
    case Kind::kName:
      return delete static_cast<Name*>(n);
    case Kind::kUnary:
      Free(static_cast<Unary*>(n)->operand);
      return delete static_cast<Unary*>(n);
    case Kind::kBinary:
      Free(static_cast<Binary*>(n)->left);
      Free(static_cast<Binary*>(n)->right);
      return delete static_cast<Binary*>(n);
    case Kind::kCall:
      for (Node* a : static_cast<Call*>(n)->arguments) Free(a);
      return delete static_cast<Call*>(n);
    case Kind::kAssign:
      Free(static_cast<Assign*>(n)->target);
      Free(static_cast<Assign*>(n)->value);
      return delete static_cast<Assign*>(n);
  }
}

uint32_t Apply(char op, uint32_t a, uint32_t b) {
  if (op == '+') return (a + b) % kModulus;
  if (op == '-') return (a + kModulus - b) % kModulus;
  return static_cast<uint32_t>(uint64_t{a} * b % kModulus);
}

uint32_t Evaluate(const Node* n) {
  switch (n->kind) {
    case Kind::kNumber:
      return static_cast<const Number*>(n)->value;
    case Kind::kName:
      return static_cast<const Name*>(n)->symbol->value;
    case Kind::kUnary:
      return Apply('-', 0, Evaluate(static_cast<const Unary*>(n)->operand));
    case Kind::kBinary: {
      const auto* b = static_cast<const Binary*>(n);
      const uint32_t left = Evaluate(b->left);
      return Apply(b->op, left, Evaluate(b->right));
    }
    case Kind::kCall: {
      uint32_t sum = 0;
      for (const Node* a : static_cast<const Call*>(n)->arguments)
        sum = Apply('+', sum, Evaluate(a));
      return sum;
    }
    case Kind::kAssign:
      break;
  }
  const auto* a = static_cast<const Assign*>(n);
  return a->target->symbol->value = Evaluate(a->value);
}

// The same value with fewer nodes: operators on two numbers are gone.
Node* Fold(Node* n) {
  if (n->kind == Kind::kAssign) {
    auto* a = static_cast<Assign*>(n);
    a->value = Fold(a->value);
  } else if (n->kind == Kind::kCall) {
    for (Node*& a : static_cast<Call*>(n)->arguments) a = Fold(a);
  } else if (n->kind == Kind::kBinary) {
    auto* b = static_cast<Binary*>(n);
    b->left = Fold(b->left);
    b->right = Fold(b->right);
    if (b->left->kind == Kind::kNumber && b->right->kind == Kind::kNumber) {
      Node* folded = new Number(Evaluate(b));
      Free(b);
      return folded;
    }
  }
  return n;
}

// ---- the parser

struct Token {
  char type;  // 'n' a name, '0' a number, else itself; 0 the end
  std::string text;
};

class Parser {
 public:
  Parser(const std::string& text, Table& table) : text_(text), table_(table) { Advance(); }

  // The next statement; null at the end.
  Node* Statement() {
    if (token_.type == 0) return nullptr;
    Name* target = TakeName();
    Expect('=');
    Node* value = Expression();
    Expect(';');
    return new Assign(target, value);
  }

 private:
  Node* Expression() {
    Node* left = Term();
    while (token_.type == '+' || token_.type == '-') {
      const char op = token_.type;
      Advance();
      left = new Binary(op, left, Term());
    }
    return left;
  }
  Node* Term() {
    Node* left = Primary();
    while (token_.type == '*') {
      Advance();
      left = new Binary('*', left, Primary());
    }
    return left;
  }
  Node* Primary() {
    if (token_.type == '0') {
      Node* n = new Number(static_cast<uint32_t>(strtoul(token_.text.c_str(), nullptr, 10)));
      Advance();
      return n;
    }
    if (token_.type == 'n') return TakeName();
    if (token_.type == '-') {
      Advance();
      return new Unary(Primary());
    }
    if (token_.type == '[') return Arguments();
    Expect('(');
    Node* inner = Expression();
    Expect(')');
    return inner;
  }
  Node* Arguments() {
    auto* call = new Call;
    do {
      Advance();
      call->arguments.push_back(Expression());
    } while (token_.type == ',');
    Expect(']');
    return call;
  }
  Name* TakeName() {
    if (token_.type != 'n') bench::Die("a name was expected");
    Symbol*& symbol = table_[token_.text];
    if (symbol == nullptr) symbol = new Symbol{token_.text};
    auto* name = new Name(symbol, token_.text);
    Advance();
    return name;
  }
  void Expect(char type) {
    if (token_.type != type) bench::Die("a syntax error in a generated program");
    Advance();
  }
  void Advance() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    const size_t begin = at_;
    const auto run = [&](auto of) {
      while (at_ < text_.size() && of(text_[at_])) ++at_;
      return text_.substr(begin, at_ - begin);
    };
    const char c = begin < text_.size() ? text_[begin] : '\0';
    const auto digit = [](char d) { return d >= '0' && d <= '9'; };
    const auto letter = [](char l) { return (l >= 'a' && l <= 'z') || l == '_'; };
    if (digit(c)) {
      token_ = {'0', run(digit)};
    } else if (letter(c)) {
      token_ = {'n', run(letter)};
    } else {
      token_ = {c, {}};
      if (c != '\0') ++at_;
    }
  }

  const std::string& text_;
  Table& table_;
  size_t at_ = 0;
  Token token_{};
};

// ---- the generator: text, and what it is worth

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed), values_(kNames) {}

  // Statements; afterwards value() is that of the last.
  std::string Program(size_t statements) {
    std::string text;
    for (size_t i = 0; i < statements; ++i) {
      const size_t target = random_.Below(kNames);
      AppendName(text, target);
      text += " = ";
      values_[target] = value_ = Expression(text, 1 + random_.Below(5));
      text += "; ";
    }
    return text;
  }
  uint32_t value() const { return value_; }

 private:
  static void AppendName(std::string& text, size_t number) {
    text += "name";
    for (size_t n = number; n != 0; n /= 7) {
      text += static_cast<char>('a' + n % 7);
      if (number % 3 == 0) text += "_longer_than_most";
    }
  }
  uint32_t Expression(std::string& text, size_t depth) {
    if (depth == 0) return Leaf(text);
    const uint64_t choice = random_.Below(10);
    if (choice == 0) {
      text += '-';
      return Apply('-', 0, Leaf(text));
    }
    if (choice < 3) return List(text, depth);
    const char op = "+-*"[random_.Below(3)];
    text += '(';
    const uint32_t left = Expression(text, depth - 1);
    text += ' ';
    text += op;
    text += ' ';
    const uint32_t right = Expression(text, depth - 1);
    text += ')';
    return Apply(op, left, right);
  }
  uint32_t List(std::string& text, size_t depth) {
    uint32_t sum = 0;
    text += '[';
    for (uint64_t n = random_.Below(5);; --n) {
      sum = Apply('+', sum, Expression(text, depth - 1));
      if (n == 0) break;
      text += ", ";
    }
    text += ']';
    return sum;
  }
  uint32_t Leaf(std::string& text) {
    if (random_.Below(2) == 0) {
      const auto value = static_cast<uint32_t>(random_.Below(kModulus));
      text += std::to_string(value);
      return value;
    }
    const size_t name = random_.Below(kNames);
    AppendName(text, name);
    return values_[name];
  }

  bench::Random random_;
  std::vector<uint32_t> values_;
  uint32_t value_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const auto programs = static_cast<uint64_t>(options.Scaled("programs", 60) + 0.999);
  const size_t statements = options.Count("statements", 2000);
  options.RejectUnknown();

  Table table;
  Generator generator(7);
  bench::Total total;
  total.threads = 1;
  for (uint64_t i = 0; i < programs; ++i) {
    const std::string text = generator.Program(statements);
    const uint64_t start = bench::NowNs();
    Parser parser(text, table);
    std::vector<Node*> trees;
    while (Node* tree = parser.Statement()) trees.push_back(Fold(tree));
    uint32_t value = 0;
    for (const Node* tree : trees) value = Evaluate(tree);
    for (Node* tree : trees) Free(tree);
    total.longest += bench::Since(start);
    if (value != generator.value()) bench::Die("a program has another value than it should");
  }
  for (auto& [name, symbol] : table) delete symbol;
  total.ops = g_nodes;
  total.busy = total.longest;
  bench::Report report("classic-parser");
  report.Add("programs=%llu", static_cast<unsigned long long>(programs));
  report.Rate(total);
  report.Finish();
  return 0;
}
