// gzip (RFC 1952) to a file descriptor, without zlib and without the heap: greedy LZ77 with the
// fixed Huffman code of RFC 1951, on profiles as small as gzip -1. Same input, same bytes. Sits in
// profile.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata {

// Writes `size` bytes at `data` as one gzip member. False: errno says why; the descriptor may then
// have taken a part. Memory (256 KiB) is the function's own while it runs.
bool WriteGzip(int fd, const void* data, size_t size);

uint32_t Crc32(const void* data, size_t size);

}  // namespace strata
