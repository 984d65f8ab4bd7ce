// A parser: JSON text becomes a tree of values, is summed up, and goes; document after document.
// --heap: bump (a pure region), reap, or malloc, which frees value by value.
// build flags: -lstrata
#include "regions.h"

namespace {

struct Value {
  enum Kind : uint32_t { kNull, kNumber, kString, kArray, kObject };
  Kind kind;
  uint32_t length;  // of a string
  Value* next;      // in an array or object
  char* key;        // in an object
  union {
    double number;
    char* text;
    Value* first;
  };
};

// Random nested text of about `bytes` bytes.
class Text {
 public:
  Text(size_t bytes, uint64_t seed) : random_(seed), out_(bytes + (1 << 20)) {
    Put('[');
    while (used_ < bytes) {
      PutObject(0);
      Put(',');
    }
    Put('0');
    Put(']');
    Put('\0');
  }
  const char* data() { return out_.data(); }

 private:
  void Put(char c) { out_[used_++] = c; }
  void PutString(uint64_t most) {
    Put('"');
    for (uint64_t n = random_.Between(3, most); n != 0; --n)
      Put(static_cast<char>('a' + random_.Below(26)));
    Put('"');
  }
  void PutValue(int depth) {
    const uint64_t what = random_.Below(depth > 4 ? 3 : 5);
    if (what == 0) return PutString(40);
    if (what <= 2) {
      for (uint64_t n = random_.Between(1, 6); n != 0; --n)
        Put(static_cast<char>('1' + random_.Below(9)));
      return;
    }
    if (what == 3) return PutObject(depth);
    Put('[');
    for (uint64_t n = random_.Below(5); n != 0; --n) {
      PutValue(depth + 1);
      Put(',');
    }
    Put('0');
    Put(']');
  }
  void PutObject(int depth) {
    Put('{');
    for (uint64_t n = random_.Between(1, 4); n != 0; --n) {
      PutString(12);
      Put(':');
      PutValue(depth + 1);
      if (n != 1) Put(',');
    }
    Put('}');
    if (used_ + 4096 > out_.size()) bench::Die("the text outgrew its buffer");
  }

  bench::Random random_;
  bench::Array<char> out_;
  size_t used_ = 0;
};

template <class Memory>
class Parser {
 public:
  explicit Parser(Memory& memory) : memory_(memory) {}

  Value* Parse(const char* text) {
    at_ = text;
    return ParseValue();
  }
  [[gnu::noinline]] double Sum(const Value* v) const {
    if (v->kind == Value::kNumber) return v->number;
    if (v->kind == Value::kString) return v->length;
    double sum = 0;
    for (const Value* c = v->first; c != nullptr; c = c->next) sum += Sum(c);
    return sum;
  }
  void Free(Value* v) {
    if (v->kind == Value::kString) memory_.Free(v->text);
    if (v->kind >= Value::kArray) {
      for (Value* c = v->first; c != nullptr;) {
        Value* next = c->next;
        Free(c);
        c = next;
      }
    }
    if (v->key != nullptr) memory_.Free(v->key);
    memory_.Free(v);
  }
  uint64_t allocations() const { return allocations_; }

 private:
  void* Get(size_t size) {
    ++allocations_;
    return memory_.Allocate(size);
  }
  char* ParseString(uint32_t* length) {
    const char* begin = ++at_;
    while (*at_ != '"') ++at_;
    *length = static_cast<uint32_t>(at_++ - begin);
    auto* copy = static_cast<char*>(Get(*length + 1));
    memcpy(copy, begin, *length);
    copy[*length] = '\0';
    return copy;
  }
  [[gnu::noinline]] Value* ParseValue() {
    auto* v = static_cast<Value*>(Get(sizeof(Value)));
    v->next = nullptr;
    v->key = nullptr;
    if (*at_ == '"') {
      v->kind = Value::kString;
      v->text = ParseString(&v->length);
    } else if (*at_ == '[' || *at_ == '{') {
      ParseMembers(v);
    } else {
      v->kind = Value::kNumber;
      double n = 0;
      for (; *at_ >= '0' && *at_ <= '9'; ++at_) n = n * 10 + (*at_ - '0');
      v->number = n;
    }
    return v;
  }
  void ParseMembers(Value* v) {
    const char close = *at_ == '[' ? ']' : '}';
    v->kind = close == ']' ? Value::kArray : Value::kObject;
    v->first = nullptr;
    Value** end = &v->first;
    do {
      ++at_;
      char* key = nullptr;
      if (close == '}') {
        uint32_t length;
        key = ParseString(&length);
        ++at_;
      }
      *end = ParseValue();
      (*end)->key = key;
      end = &(*end)->next;
    } while (*at_ == ',');
    if (*at_++ != close) bench::Die("not what was written");
  }

  Memory& memory_;
  const char* at_ = nullptr;
  uint64_t allocations_ = 0;
};

template <class Memory>
bench::Total Run(double seconds, const char* text, double* sum) {
  return bench::RunThreads(1, [&](unsigned) {
    Memory memory;
    return bench::RunFor(seconds, [&]() -> uint64_t {
      memory.Begin();
      Parser<Memory> parser(memory);
      Value* root = parser.Parse(text);
      *sum = parser.Sum(root);
      if (!Memory::kWhole) parser.Free(root);
      memory.End();
      return parser.allocations();
    });
  });
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const char* heap = options.Text("heap", "reap");
  const size_t bytes = options.Count("kib", 64) << 10;
  const double seconds = options.Scaled("seconds", 0.5);
  options.RejectUnknown();
  Text text(bytes, 1);
  double sum = 0;
  const bench::Total total = bench::WithMemory(
      heap, [&]<class Memory>() { return Run<Memory>(seconds, text.data(), &sum); });
  bench::Report report("parser");
  report.Rate(total);
  report.Add("sum=%.0f", sum);
  report.Finish();
  return 0;
}
