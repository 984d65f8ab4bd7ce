// Wrong on purpose: cpp new[] delete.

#include <memory>
struct Buf {
  char* p;
  explicit Buf(size_t n) : p(new char[n]) {}
  ~Buf() { delete p; }
};
int main(int c, char** v) {
  Buf b(10 + c);
  b.p[0] = v[0][0];
  auto u = std::make_unique<int>(c);
  return *u + b.p[0];
}
