// A request server without the network: each request's text is parsed into headers and parameters,
// a handler makes rows of them, joins the rows into an answer that grows, frees its temporary
// strings as it goes, and at the end of the request everything goes. A region is begun and ended
// for each request. --heap: bump, reap or malloc.
// build flags: -lstrata
#include "regions.h"

namespace {

struct Text {
  char* data;
  uint32_t length;
};

struct Pair {
  Pair* next;
  Text name;
  Text value;
};

// Requests as a browser sends them, some hundred different ones.
class Requests {
 public:
  static constexpr size_t kCount = 256, kMost = 2048;
  explicit Requests(uint64_t seed) : random_(seed), out_(kCount * kMost) {
    for (size_t i = 0; i < kCount; ++i) Write(&out_[i * kMost]);
  }
  const char* operator[](size_t i) { return &out_[i % kCount * kMost]; }

 private:
  char* Word(char* to, uint64_t least, uint64_t most) {
    for (uint64_t n = random_.Between(least, most); n != 0; --n)
      *to++ = static_cast<char>('a' + random_.Below(26));
    return to;
  }
  void Write(char* to) {
    to = stpcpy(to, "GET /");
    to = Word(to, 5, 30);
    for (uint64_t n = random_.Between(1, 6); n != 0; --n) {
      *to++ = '&';
      to = Word(to, 1, 8);
      *to++ = '=';
      to = Word(to, 1, 40);
    }
    to = stpcpy(to, "\n");
    for (uint64_t n = random_.Between(8, 16); n != 0; --n) {
      to = Word(to, 4, 16);
      to = stpcpy(to, ": ");
      to = Word(to, 8, 60);
      *to++ = '\n';
    }
    *to = '\0';
  }

  bench::Random random_;
  bench::Array<char> out_;
};

template <class Memory>
class Request {
 public:
  explicit Request(Memory& memory) : memory_(memory) {}

  // A number that depends on every byte of the answer.
  uint64_t Serve(const char* text) {
    const char* at = text + 5;
    path_ = Until(at, '&', '\n');
    while (*at == '&') {
      const Text name = Until(++at, '=', '=');
      Add(&parameters_, name, Until(++at, '&', '\n'));
    }
    while (*at++ == '\n' && *at != '\0') {
      const Text name = Until(at, ':', ':');
      at += 2;
      Add(&headers_, name, Until(at, '\n', '\n'));
    }
    for (const Pair* p = parameters_; p != nullptr; p = p->next) {
      for (const Pair* h = headers_; h != nullptr; h = h->next) AddRow(*p, *h);
    }
    uint64_t sum = answer_.length;
    for (uint32_t i = 0; i < answer_.length; i += 16) sum = sum * 31 + Byte(answer_.data[i]);
    return sum;
  }
  void Free() {
    FreePairs(parameters_);
    FreePairs(headers_);
    memory_.Free(path_.data);
    memory_.Free(answer_.data);
  }
  uint64_t allocations() const { return allocations_; }

 private:
  static uint64_t Byte(char c) { return static_cast<unsigned char>(c); }
  char* Get(size_t size) {
    ++allocations_;
    return static_cast<char*>(memory_.Allocate(size));
  }
  Text Until(const char*& at, char one, char other) {
    const char* begin = at;
    while (*at != one && *at != other) ++at;
    const auto length = static_cast<uint32_t>(at - begin);
    char* copy = Get(length + 1);
    memcpy(copy, begin, length);
    copy[length] = '\0';
    return {copy, length};
  }
  void Add(Pair** list, Text name, Text value) {
    *list = new (Get(sizeof(Pair))) Pair{*list, name, value};
  }
  void AddRow(const Pair& p, const Pair& h) {
    const uint32_t length = p.value.length + h.value.length + h.name.length + 3;
    char* row = Get(length);
    char* to = row;
    for (const Text& t : {h.name, p.value, h.value}) {
      memcpy(to, t.data, t.length);
      to += t.length;
      *to++ = ' ';
    }
    if (answer_.length + length > capacity_) {
      capacity_ = (answer_.length + length) * 2;
      char* larger = Get(capacity_);
      if (answer_.data != nullptr) {
        memcpy(larger, answer_.data, answer_.length);
        memory_.Free(answer_.data);
      }
      answer_.data = larger;
    }
    memcpy(answer_.data + answer_.length, row, length);
    answer_.length += length;
    memory_.Free(row);
  }
  void FreePairs(Pair* p) {
    while (p != nullptr) {
      Pair* next = p->next;
      memory_.Free(p->name.data);
      memory_.Free(p->value.data);
      memory_.Free(p);
      p = next;
    }
  }

  Memory& memory_;
  Text path_ = {};
  Pair* headers_ = nullptr;
  Pair* parameters_ = nullptr;
  Text answer_ = {};
  uint32_t capacity_ = 0;
  uint64_t allocations_ = 0;
};

template <class Memory>
bench::Total Run(double seconds, Requests& requests, uint64_t* sum) {
  return bench::RunThreads(1, [&](unsigned) {
    Memory memory;
    size_t next = 0;
    return bench::RunFor(seconds, [&]() -> uint64_t {
      uint64_t done = 0;
      *sum = 0;
      for (size_t i = 0; i < Requests::kCount; ++i) {
        memory.Begin();
        Request<Memory> request(memory);
        *sum += request.Serve(requests[next++]);
        if (!Memory::kWhole) request.Free();
        memory.End();
        done += request.allocations();
      }
      return done;
    });
  });
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const char* heap = options.Text("heap", "reap");
  const double seconds = options.Scaled("seconds", 0.5);
  options.RejectUnknown();
  Requests requests(1);
  uint64_t sum = 0;
  const bench::Total total =
      bench::WithMemory(heap, [&]<class Memory>() { return Run<Memory>(seconds, requests, &sum); });
  bench::Report report("server");
  report.Rate(total);
  report.Add("sum=%llu", static_cast<unsigned long long>(sum));
  report.Finish();
  return 0;
}
