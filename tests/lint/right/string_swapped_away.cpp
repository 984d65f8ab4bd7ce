// Right: the text went to the other string by swap.
#include <cstdio>
#include <string>

static int swapped() {
  std::string other;
  const char* text;
  {
    std::string one("a text that is long enough for the heap");
    text = one.c_str();
    one.swap(other);
  }
  return std::puts(text);
}

static int swapped_by_other() {
  std::string other;
  const char* text;
  {
    std::string one("a text that is long enough for the heap");
    text = one.c_str();
    other.swap(one);
  }
  return std::puts(text);
}

int main() { return swapped() + swapped_by_other(); }
