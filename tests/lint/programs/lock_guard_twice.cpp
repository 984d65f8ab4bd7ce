// A guard holds the lock, and what is called takes it again.
#include <mutex>
#include <vector>

class Queue {
 public:
  unsigned size() {
    const std::lock_guard<std::mutex> guard(lock_);
    return items_.size();
  }
  bool push(int item) {
    const std::lock_guard<std::mutex> guard(lock_);
    if (size() > 7) return false;
    items_.push_back(item);
    return true;
  }

 private:
  std::mutex lock_;
  std::vector<int> items_;
};

bool f(int item) {
  static Queue queue;
  return queue.push(item);
}
