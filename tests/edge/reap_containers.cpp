// std::pmr containers over the process heap, over a reap and over nested reaps. Prints nothing.
#include <cstdlib>
#include <memory>
#include <memory_resource>
#include <thread>
#include <utility>
#include <vector>

#include "pmr_containers.h"
#include "strata/memory_resource.h"

#define REQUIRE(x) \
  if (!(x)) abort()

int main() {
  strata::memory_resource process, again;
  REQUIRE(process == again);
  REQUIRE(ContainersWork(&process, 3000));

  strata::reap_resource resource;
  REQUIRE(resource != static_cast<std::pmr::memory_resource&>(process));
  for (int round = 0; round < 5; ++round) REQUIRE(ContainersWork(&resource, 3000));
  REQUIRE(strata_reap_bytes(resource.get()) == 0);

  // What a container leaks goes with the reap.
  strata::reap parent;
  {
    strata::reap_resource child{strata::reap(parent)};
    auto* leaked =
        new (child.allocate(sizeof(std::pmr::vector<int>))) std::pmr::vector<int>(1000, 7, &child);
    REQUIRE(leaked->back() == 7);
    REQUIRE(strata_reap_bytes(child.get()) > 4000 && parent.bytes() == 0);
  }
  // One that somebody else has, as a pool of a server's: by its handle, and by its object.
  {
    strata_reap* handle = strata_reap_create(nullptr);
    {
      strata::reap_resource pool(handle), same(handle);
      REQUIRE(pool == same && pool != resource && pool != process && process != pool);
      REQUIRE(ContainersWork(&pool, 300));
      REQUIRE(strata_reap_find(pool.allocate(100)) == handle);
    }
    REQUIRE(strata_reap_bytes(handle) > 100);
    strata_reap_destroy(handle);
    strata::reap_resource user(parent);
    REQUIRE(user.get() == parent.get());
    user.deallocate(user.allocate(100, 64), 100, 64);
  }
  // And a shared one.
  strata::reap_resource for_all(strata::reap::shared);
  std::thread([&] { REQUIRE(ContainersWork(&for_all, 300)); }).join();
  REQUIRE(ContainersWork(&for_all, 300));
  // A child outlives what is in it, and its parent.
  auto outer = std::make_unique<strata::reap>();
  strata::reap own(*outer);
  strata::reap_resource inner(own);  // uses it
  strata::reap below(strata::reap::shared, own);
  strata_reap* plain = strata_reap_create(below.get());
  for (int round = 0; round < 3; ++round) {
    REQUIRE(inner.allocate(100) != nullptr && below.allocate(100'000) != nullptr);
    if (round == 0) REQUIRE(strata_reap_malloc(plain, 100) != nullptr);
    outer->clear();
    REQUIRE(own.bytes() == 0 && below.bytes() == 0);
  }
  REQUIRE(below.allocate(100) != nullptr);
  strata_reap* middle = strata_reap_create(outer->get());
  REQUIRE(strata_reap_set_parent(inner.get(), middle) == 0);
  strata_reap_destroy(middle);  // inner is outer's again
  outer.reset();
  REQUIRE(below.bytes() == 0 && own.bytes() == 0);
  REQUIRE(ContainersWork(&inner, 3000));
  REQUIRE(below.allocate(100) != nullptr);
  own.clear();
  REQUIRE(below.bytes() == 0);

  strata::reap moved = std::move(parent);
  REQUIRE(moved.allocate(10) != nullptr);
  moved = strata::reap(strata::reap::shared);
  moved.set_cap(1 << 16);
  try {
    for (;;) moved.allocate(1000);
  } catch (const std::bad_alloc&) {
  }
  REQUIRE(moved.held() <= 1 << 16);
}
