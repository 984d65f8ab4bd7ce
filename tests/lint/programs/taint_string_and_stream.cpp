// Through std::string, a list of them, and a record that is handed on by reference.
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

struct Message {
  int kind = 0;
  std::string text;
};

static void say(const Message& m) { printf(m.text.c_str()); }

int main() {
  std::vector<std::string> lines;
  std::string line;
  while (std::getline(std::cin, line)) lines.push_back("> " + line);
  if (lines.empty()) return 1;
  Message m;
  m.text = lines[0];
  say(m);
  return 0;
}
