// Which class a std::pmr::memory_resource is of, for those that compare what they stand for.
#pragma once

#include <cstring>
#include <memory_resource>

namespace strata::internal {

// Of the class that a resource was made as, what every object of it begins with: tells two apart
// also where a program is compiled without dynamic_cast (-fno-rtti).
inline const void* ClassOf(const std::pmr::memory_resource& resource) {
  const void* table;
  std::memcpy(&table, static_cast<const void*>(&resource), sizeof table);
  return table;
}

}  // namespace strata::internal
