// A copy of the string lives on, not the text that was lent.
#include <cstdio>
#include <string>

static int copied() {
  std::string other;
  const char* text;
  {
    std::string one("a text that is long enough for the heap");
    text = one.c_str();
    other = one;
  }
  return std::puts(text);
}

int main() { return copied(); }
