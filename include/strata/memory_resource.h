// Strata for C++ containers: strata::reap (a reap with an owner), strata::reap_resource and
// strata::memory_resource (std::pmr over a reap and over the process heap). Thread-safety: that of
// the reap; memory_resource is for all threads. Out of memory throws std::bad_alloc as every
// std::pmr resource does; without exceptions it ends the program with one line.
#pragma once

#include <cstddef>
#include <memory_resource>
#include <new>
#include <utility>

#include "strata/out_of_memory.h"
#include "strata/reap.h"
#include "strata/resource_class.h"

namespace strata {

namespace internal {

inline void* AllocateInReap(strata_reap* reap, std::size_t size, std::size_t alignment) {
  void* p = alignment <= 16 ? strata_reap_malloc_inline(reap, size)
                            : strata_reap_memalign(reap, alignment, size);
  if (p == nullptr) ThrowOutOfMemory();
  return p;
}

}  // namespace internal

// Owns a strata_reap; destroys it at the end of its scope. When its parent is cleared or ends
// before it, all its memory goes and it is an empty reap, which may be used again; objects that
// were in it must not.
class reap {
 public:
  reap() : reap(nullptr, false) {}
  explicit reap(reap& parent) : reap(parent.get(), false) {}
  // A reap for several threads.
  struct shared_t {};
  static constexpr shared_t shared{};
  explicit reap(shared_t) : reap(nullptr, true) {}
  reap(shared_t, reap& parent) : reap(parent.get(), true) {}

  reap(reap&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  reap& operator=(reap&& other) noexcept {
    if (this != &other) {
      strata_reap_destroy(handle_);
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  ~reap() { strata_reap_destroy(handle_); }

  // One that was moved from may be destroyed or assigned to, and nothing else.
  void* allocate(std::size_t size, std::size_t alignment = alignof(std::max_align_t)) {
    return internal::AllocateInReap(handle_, size, alignment);
  }
  void deallocate(void* p) { strata_reap_free_inline(handle_, p); }
  void clear() { strata_reap_clear(handle_); }
  std::size_t bytes() const { return strata_reap_bytes(handle_); }
  std::size_t held() const { return strata_reap_held(handle_); }
  void set_cap(std::size_t bytes, strata_reap_cap_function reached = nullptr,
               void* context = nullptr) {
    strata_reap_set_cap(handle_, bytes, reached, context);
  }
  strata_reap* get() const { return handle_; }

 private:
  friend class reap_resource;
  explicit reap(std::nullptr_t) : handle_(nullptr) {}  // none
  reap(strata_reap* parent, bool for_threads)
      : handle_(for_threads ? strata_reap_create_shared(parent) : strata_reap_create(parent)) {
    if (handle_ == nullptr) internal::ThrowOutOfMemory();
    strata_reap_keep(handle_);
  }

  strata_reap* handle_;
};

// Containers over a reap: what they free is used again, and all goes with the reap. For as many
// threads as the reap is. Resources over one reap are equal.
class reap_resource final : public std::pmr::memory_resource {
 public:
  // A reap of its own; or one that is handed over: reap_resource(strata::reap(parent)).
  reap_resource() : reap_resource(strata::reap()) {}
  explicit reap_resource(strata::reap::shared_t shared) : reap_resource(strata::reap(shared)) {}
  explicit reap_resource(strata::reap&& own) : own_(std::move(own)), reap_(own_.get()) {}
  // Somebody's, who keeps it as long as the resource is used: also of a pool of APR's or nginx's.
  explicit reap_resource(strata::reap& used) : reap_resource(used.get()) {}
  explicit reap_resource(strata_reap* used) : own_(nullptr), reap_(used) {}
  // Containers hold its address.
  reap_resource(const reap_resource&) = delete;
  reap_resource& operator=(const reap_resource&) = delete;

  // The reap, for the functions of strata/reap.h.
  strata_reap* get() const { return reap_; }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    return internal::AllocateInReap(reap_, bytes, alignment);
  }
  void do_deallocate(void* p, std::size_t, std::size_t) override {
    strata_reap_free_inline(reap_, p);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return internal::ClassOf(other) == internal::ClassOf(*this) &&
           static_cast<const reap_resource&>(other).reap_ == reap_;
  }

  strata::reap own_;  // none where the reap is somebody else's
  strata_reap* reap_;
};

// The process heap as a resource: sized and aligned frees, per-CPU caches, no lock on the path.
// All objects of this class are equal.
class memory_resource final : public std::pmr::memory_resource {
 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    return alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__
               ? ::operator new(bytes)
               : ::operator new(bytes, std::align_val_t(alignment));
  }
  void do_deallocate(void* p, std::size_t bytes, std::size_t alignment) override {
    if (alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__) {
      ::operator delete(p, bytes);
    } else {
      ::operator delete(p, bytes, std::align_val_t(alignment));
    }
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return internal::ClassOf(other) == internal::ClassOf(*this);
  }
};

}  // namespace strata
