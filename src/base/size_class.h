// The name of a size class. 0 means "no class": a large block, or a page that holds no block. There
// are two classes of each size: one for what nothing is known of, and one for objects that are
// predicted to last, which so lie in spans of their own. Sits in base because every tier speaks of
// classes; what a class is made of is in span/size_classes.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata {

enum class SizeClass : uint16_t { kNone = 0 };

constexpr size_t Raw(SizeClass c) { return static_cast<size_t>(c); }

// A class times the size of what a slab knows of it (cache/slab.h): so it is kept where the fast
// path reads it.
inline constexpr size_t kClassBitsShift = 5;
constexpr SizeClass ClassIn(uint16_t class_bits) {
  return static_cast<SizeClass>(class_bits >> kClassBitsShift);
}
constexpr uint16_t ClassBits(SizeClass c) {
  return static_cast<uint16_t>(Raw(c) << kClassBitsShift);
}

// A page on which a sampled object starts, or whose span is of a group (base/object_group.h), is
// entered in the page map with this bit beside its class: no slab has room for such a "class", so a
// free of anything on the page takes the slow path, and the fast path needs no test.
inline constexpr uint16_t kSampledPage = 0x100;

constexpr bool IsSampledPage(SizeClass c) { return (Raw(c) & kSampledPage) != 0; }
constexpr SizeClass WithoutSampledPage(SizeClass c) {
  return static_cast<SizeClass>(Raw(c) & ~size_t{kSampledPage});
}

}  // namespace strata
