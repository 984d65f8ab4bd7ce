// A secret that stands in this process's list of mappings, /proc/PID/maps, and nowhere else that
// others can see. Whoever knows it may read that list, which the kernel grants by all that it goes
// by: users, capabilities in our user namespace, dumpable, security modules. Sits in os.
#pragma once

#include <cstddef>

namespace strata {

// Not for two threads at a time.
class MappedKey {
 public:
  static constexpr size_t kLength = 32;  // hexadecimal digits: 128 bits

  MappedKey() = default;
  ~MappedKey() { Drop(); }
  MappedKey(const MappedKey&) = delete;
  MappedKey& operator=(const MappedKey&) = delete;

  // A new one, shown as `/memfd:strata-key:DIGITS (deleted)`. False if the kernel refuses: errno
  // says why. Needs a free descriptor meanwhile.
  bool Make();
  void Drop();
  bool made() const { return pages_ != nullptr; }
  // In a time that tells nothing of where the two differ.
  bool Matches(const char* text, size_t length) const;

 private:
  // The digits, and behind them the page that shows them. A forked child has neither: it may come
  // to show its mappings to others than we do.
  char* pages_ = nullptr;
};

}  // namespace strata
