// The text of a C++ string, used after the string. Lines that are wrong say so.
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

static std::string path_of(const char* name) { return std::string("/tmp/") + name; }

void of_a_temporary(const char* name) {
  const char* path = path_of(name).c_str();
  std::puts(path);  // wrong
  std::puts(path_of(name).c_str());
}

char of_a_view(const char* name) {
  std::string_view path = path_of(name);
  return path[0];  // wrong
}

void of_a_scope(const char* name, bool inner) {
  const char* text = "";
  std::string outer = path_of(name);
  if (inner) {
    std::string own = path_of(name);
    text = own.c_str();
  } else {
    text = outer.c_str();
  }
  std::puts(text);  // wrong
}

void of_another(const char* name) {
  std::string all;
  const char* text;
  {
    std::string own = path_of(name);
    text = own.c_str();
    all = std::move(own);
  }
  std::puts(text);
}
