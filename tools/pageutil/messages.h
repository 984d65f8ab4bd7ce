// How the guest library tells the plugin what malloc did: by a system call that no kernel has,
// which the plugin sees before QEMU refuses it. So a message takes its place in the order of the
// thread's own accesses, and nothing has to be shared. Sits in tools/pageutil.
#pragma once

#include <cstdint>

namespace strata::pageutil {

constexpr int64_t kMessageCall = 0x5354'5055;  // "STPU": far beyond the numbers of Linux

enum class Message : uint64_t {
  kOwnCode = 1,        // begin, end: not the program's; its accesses do not count
  kAllocated = 2,      // block, usable size, frames, their number
  kAllocatedOnce = 3,  // the same, unless the block is known
  kFreed = 4,          // block
};

}  // namespace strata::pageutil
