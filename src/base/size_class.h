// The name of a size class. 0 means "no class": a large block, or a page that holds no block. Sits
// in base because every tier speaks of classes; what a class is made of is in span/size_classes.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata {

enum class SizeClass : uint8_t { kNone = 0 };

constexpr size_t Raw(SizeClass c) { return static_cast<size_t>(c); }

}  // namespace strata
