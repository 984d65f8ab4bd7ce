// Writing to a descriptor to the end. Sits in base.
#pragma once

#include <atomic>
#include <cstddef>

namespace strata {

// All of it, through short writes and EINTR. False: errno says why. A descriptor that does not
// block is waited for; one that takes nothing for kPatienceMs fails with ETIMEDOUT. No signal
// reaches the program.
bool WriteAll(int fd, const void* data, size_t size);
inline constexpr int kPatienceMs = 10'000;

// Whether the calling thread must not wait: it then fails at once. Null: nobody must end.
extern std::atomic<bool (*)()> g_writer_must_end;

}  // namespace strata
