// Right: a lock of C++ that may be taken again.
#include <mutex>

std::recursive_mutex m;
int n;
int get() {
  std::lock_guard<std::recursive_mutex> g(m);
  return n;
}
int f() {
  std::lock_guard<std::recursive_mutex> g(m);
  return get() + 1;
}
