/* operator new with a hint of how often the object will be used, as LLVM's profile-guided pass
 * emits it and as TCMalloc takes it: below 128 is cold, 255 is hottest. Strata accepts every form.
 * Hot objects, cold ones (below 128) and all others lie in pages of their own, so each malloc and
 * free of a hot or cold one takes a lock; a block above 256 KiB has its own pages anyway, and an
 * alignment goes before the hint. docs/hotness.md says what that gains. Delete as usual. */
#ifndef STRATA_HOT_COLD_H_
#define STRATA_HOT_COLD_H_

#include <cstddef>
#include <cstdint>
#include <new>

enum class __hot_cold_t : uint8_t;

void* operator new(std::size_t size, __hot_cold_t hint);
void* operator new[](std::size_t size, __hot_cold_t hint);
void* operator new(std::size_t size, const std::nothrow_t&, __hot_cold_t hint) noexcept;
void* operator new[](std::size_t size, const std::nothrow_t&, __hot_cold_t hint) noexcept;
void* operator new(std::size_t size, std::align_val_t align, __hot_cold_t hint);
void* operator new[](std::size_t size, std::align_val_t align, __hot_cold_t hint);
void* operator new(std::size_t size, std::align_val_t align, const std::nothrow_t&,
                   __hot_cold_t hint) noexcept;
void* operator new[](std::size_t size, std::align_val_t align, const std::nothrow_t&,
                     __hot_cold_t hint) noexcept;

/* P0901: the block, and the bytes of it that may be used. A sized delete takes either size. */
extern "C" {
struct __sized_ptr_t {
  void* p;
  std::size_t n;
};
__sized_ptr_t __size_returning_new(std::size_t size);
__sized_ptr_t __size_returning_new_hot_cold(std::size_t size, __hot_cold_t hint);
__sized_ptr_t __size_returning_new_aligned(std::size_t size, std::align_val_t align);
__sized_ptr_t __size_returning_new_aligned_hot_cold(std::size_t size, std::align_val_t align,
                                                    __hot_cold_t hint);
}

#endif /* STRATA_HOT_COLD_H_ */
