// The sink is a virtual function, of an object that a smart pointer holds.
#include <cstdio>
#include <memory>

struct Sink {
  virtual ~Sink() = default;
  virtual void flush() {}
  virtual void put(const char* text) = 0;
};

struct Terminal : Sink {
  void put(const char* text) override { printf(text); }
};

int main() {
  std::unique_ptr<Sink> sink(new Terminal);
  char line[80];
  while (fgets(line, sizeof line, stdin)) sink->put(line);
  return 0;
}
