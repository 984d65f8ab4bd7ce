// A class opens a file and nobody closes it.
#include <cstdio>

class Reader {
 public:
  explicit Reader(const char* path) : file_(fopen(path, "r")) {}
  bool good() const { return file_ != nullptr; }
  int one() { return fgetc(file_); }

 private:
  FILE* file_;
};

int f() {
  Reader reader("/etc/passwd");
  return reader.good() ? reader.one() : 0;
}
