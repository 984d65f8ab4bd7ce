// One line on stderr: built in a fixed buffer, sent with a single write(2), so lines of several
// threads never mix and nothing is allocated. Starts with "strata: ". Longer text is cut. Sits in
// base.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata {

class Message {
 public:
  Message() { Text("strata: "); }

  Message& Text(const char* s);
  Message& Number(size_t n);
  Message& Hex(uintptr_t n);
  void Send();  // adds the line end, writes to stderr, keeps errno
  // The same for what the program goes on after, so that it had better not be lost nor do harm: not
  // where the program's data files or connections have the number of stderr by now.
  void Warn();

 private:
  static constexpr size_t kCapacity = 400;
  char buffer_[kCapacity];
  size_t used_ = 0;
};

// What stderr is at the start, for warnings that may come when it is something else. Without that
// they are sent in any case.
void NoteStderr();

}  // namespace strata
