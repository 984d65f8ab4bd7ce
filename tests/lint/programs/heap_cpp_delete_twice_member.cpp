// Wrong on purpose: cpp delete twice member.
#include <stdio.h>
#include <string>
struct T {
  std::string n;
  int* d;
  T(const char* s) : n(s), d(new int[4]) {}
  void reset() { delete[] d; }
  ~T() { delete[] d; }
};
int main(int c, char** v) {
  T t(v[0]);
  if (c > 2) t.reset();
  printf("%s\n", t.n.c_str());
  return 0;
}
