// What an operation sees of a value; valid until the operation's scope ends.
#pragma once

#include <cstddef>
#include <cstdint>

namespace crest {

struct ValueView {
  const char* data = nullptr;  // null: there is none
  size_t size = 0;
};

// What became of a write to a slot that must hold something already.
enum class Replaced : uint8_t { kYes, kWasEmpty, kNoMemory };

}  // namespace crest
