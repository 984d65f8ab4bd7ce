// What the kernel says of a range of addresses: which pages are resident, and how much hugepages
// back. Sits in os.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata {

// Bytes resident (by mincore, which counts pages that were only ever read; RSS does not, as they
// map the shared zero page).
size_t ResidentBytes(uintptr_t start, size_t bytes);
// One byte for each native page, bit 0 set if it is resident; returns false if the kernel refuses.
bool ResidentPages(uintptr_t start, size_t native_pages, unsigned char* one_byte_a_page);
// The same by /proc/self/pagemap, for where a filter may refuse mincore, as systemd's
// @system-service does.
bool PagesInPagemap(uintptr_t start, size_t native_pages, unsigned char* one_byte_a_page);

// Bytes between two addresses that hugepages back, by /proc/self/smaps; 0 if that can't be read.
size_t HugeBackedBytes(uintptr_t start, uintptr_t end);

// Whether p lies in the heap that libc grows by brk. Reads /proc/self/maps: for error paths.
bool IsInDataSegmentHeap(const void* p);

}  // namespace strata
