// strata::scope, as docs/scope.md shows it. Prints nothing.
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "strata/reap.h"
#include "strata/scope.h"

#define REQUIRE(x) \
  if (!(x)) abort()

namespace {

struct alignas(128) Wide {
  char bytes[256];
};

std::string Keep() {
  const strata::scope request;
  std::vector<std::string> lines(100, std::string(100, 'x'));
  REQUIRE(request.live() > 10'000);
  return lines[7];
}

void Bulk() {
  strata::scope request(strata::scope::bulk);
  request.expect(50'000);
  auto* leaked = new std::map<int, std::string>;
  for (int i = 0; i < 1000; ++i) (*leaked)[i] = std::string(50, 'y');
  REQUIRE(request.live() > 100'000);
}

void Cap() {
  strata::scope request;
  request.set_cap(100'000);
  try {
    const std::vector<char> large(1'000'000);
    abort();
  } catch (const std::bad_alloc&) {
  }
  const auto wide = std::make_unique<Wide>();
  REQUIRE(reinterpret_cast<uintptr_t>(wide.get()) % 128 == 0 && request.live() >= 256);
}

// The thread is where it was when the function of the cap has thrown.
void ThrowingCap() {
  strata::scope request;
  request.set_cap(100'000, [](void*, size_t, size_t, size_t) -> size_t { throw 7; });
  for (int i = 0; i < 10; ++i) {
    try {
      const std::vector<char> large(1'000'000);
      abort();
    } catch (int thrown) {
      REQUIRE(thrown == 7);
    }
    REQUIRE(strata_scope_current() == request.get());
    const size_t before = request.live();
    const std::string inside(1000, 'i');
    REQUIRE(request.live() >= before + 1000);
  }
}

// The exception and its text lie in the scope that it ends.
void ThrowOutOfBulk(size_t length) {
  const strata::scope job(strata::scope::bulk);
  const std::string text(length, 't');
  throw std::runtime_error(text);
}
struct BulkInDestructor {
  ~BulkInDestructor() {
    strata_scope* scope;
    {
      const strata::scope job(strata::scope::bulk);
      scope = job.get();
      left = new std::string(1000, 'l');
      REQUIRE(strata_reap_find(left) != nullptr);
    }
    // Made while an exception was under way, ended by none.
    REQUIRE(strata_reap_find(left) == nullptr && strata_scope_current() != scope);
  }
  std::string* left = nullptr;
};
void Exceptions() {
  for (size_t length = 10; length < 1'000'000; length *= 7) {
    try {
      const BulkInDestructor last;
      ThrowOutOfBulk(length);
      abort();
    } catch (const std::runtime_error& e) {
      REQUIRE(strata_scope_current() == nullptr);
      const std::vector<std::string> others(100, std::string(length % 5000, 'o'));
      REQUIRE(std::string(e.what()) == std::string(length, 't'));
    }
  }
}

void Nested() {
  const strata::scope outer;
  const std::string a(1000, 'a');
  const size_t before = outer.live();
  {
    const strata::scope inner;
    const std::string b(1000, 'b');
    REQUIRE(inner.live() >= 1000 && outer.live() >= before + 1000);
  }
  REQUIRE(outer.live() == before);
  {
    const strata::scope::visit none(nullptr);
    const std::string c(1000, 'c');
    REQUIRE(outer.live() == before);
  }
}

void Threads() {
  const strata::scope request;
  std::unique_ptr<std::string> made;
  std::thread worker([&] {
    const std::string outside(1000, 'o');
    const strata::scope::visit here(request);
    made = std::make_unique<std::string>(1000, 'i');
  });
  worker.join();
  REQUIRE(request.live() >= 1000 && request.live() < 2200);
  std::thread([&] { made.reset(); }).join();
  REQUIRE(request.live() < 1000);
}

}  // namespace

int main() {
  for (int i = 0; i < 1000; ++i) REQUIRE(Keep() == std::string(100, 'x'));
  for (int i = 0; i < 100; ++i) Bulk();
  Cap();
  ThrowingCap();
  Exceptions();
  Nested();
  Threads();
  REQUIRE(strata_scope_current() == nullptr);
}
