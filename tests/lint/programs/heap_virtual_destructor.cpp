// Deleted by a virtual destructor, and read.
struct Base {
  virtual ~Base() {}
  int size = 0;
};

struct Derived : Base {
  char* text = new char[4];
  ~Derived() override { delete[] text; }
};

int f() {
  Base* b = new Derived;
  delete b;
  return b->size;
}
