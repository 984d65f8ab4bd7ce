// Linked with libstrata in several ways by test_install.py: operator new, and the allocations of
// libstdc++'s own code, must both reach Strata.
#include <new>
#include <string>

#include "probe.h"

int main() {
  constexpr size_t kBytes = 3 << 20;
  if (std::string(strata_version()) != VERSION) return Fail("strata_version");
  const long long before = LiveBytes();
  char* volatile block = new char[kBytes];
  const long long with_block = LiveBytes();
  if (before < 0 || with_block - before < static_cast<long long>(kBytes)) {
    return Fail("operator new is not Strata's");
  }
  std::string text;
  text.resize(kBytes, 'x');
  if (LiveBytes() - with_block < static_cast<long long>(kBytes)) {
    return Fail("libstdc++'s allocations are not Strata's");
  }
  void* aligned = ::operator new(kBytes, std::align_val_t{4096});
  if (reinterpret_cast<size_t>(aligned) % 4096 != 0) return Fail("aligned new");
  ::operator delete(aligned, std::align_val_t{4096});
  delete[] block;
  puts("strata");
  return 0;
}
