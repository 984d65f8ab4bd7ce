// Put together by a stream of C++'s, piece by piece.
#include <cstdio>
#include <cstdlib>
#include <sstream>

int main() {
  const char* name = getenv("NAME");
  if (!name) return 1;
  std::ostringstream out;
  out << "hello " << name;
  printf(out.str().c_str());
  return 0;
}
