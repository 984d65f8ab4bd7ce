// Where a run of pages should lie: what is known of the objects that will fill it. Whoever asks for
// memory says what it knows, every tier on the way down passes it on, and the page heap alone makes
// something of it (hugepage/placement_group.h). Sits in base because every tier speaks of it.
#pragma once

#include <cstdint>
#include <type_traits>

namespace strata {

// How many objects the run will hold. A dense run empties late, because all of them must go (Z.
// Zhou et al., "Characterizing a memory allocator at warehouse scale", ASPLOS 2024, section 4.4).
enum class Density : uint8_t { kSparse, kDense };

// For how long objects live: class n, less than 10^n ms (M. Maas et al., "Combining machine
// learning and lifetime-based resource management for memory allocation and beyond", CACM 67(4),
// 2024, section 2.2). In order, so that classes can be compared.
enum class LifetimeClass : uint8_t {
  kUnknown,
  kUnder10Ms,
  kUnder100Ms,
  kUnder1S,
  kUnder10S,
  kUnder100S,
  kUnder1000S,
  kLong,     // 1000 s and more
  kForever,  // never freed
};

// How often they will be used.
enum class Hotness : uint8_t { kMiddle, kCold, kHot };

// As made: what malloc gets, which knows nothing.
struct Placement {
  Density density = Density::kSparse;
  LifetimeClass lifetime = LifetimeClass::kUnknown;
  Hotness hotness = Hotness::kMiddle;

  friend constexpr bool operator==(const Placement&, const Placement&) = default;
};
static_assert(sizeof(Placement) <= sizeof(uint64_t) && std::is_trivially_copyable_v<Placement>,
              "passed in a register");

}  // namespace strata
