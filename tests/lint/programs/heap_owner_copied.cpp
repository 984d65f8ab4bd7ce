// A class that owns and is copied as it is: both destructors delete.
class Owner {
 public:
  Owner() : value_(new int(3)) {}
  ~Owner() { delete value_; }
  int value() const { return *value_; }

 private:
  int* value_;
};

int f() {
  Owner first;
  Owner second = first;
  return second.value();
}
