// A program whose allocations are known: long-lived orders among short-lived receipts, a catalogue
// that grows by realloc, and a peak that is gone at the end. It then writes a profile of each kind
// through the C API: KIND.pb.gz in the folder that is its only argument.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

extern "C" int strata_profile(const char* kind, int fd) __attribute__((weak));

namespace shop {

constexpr size_t kOrder = 1000, kReceipt = 200;

[[gnu::noinline]] void* TakeOrder() { return malloc(kOrder); }
[[gnu::noinline]] void* PrintReceipt() { return malloc(kReceipt); }

struct Catalogue {
  [[gnu::noinline]] void Grow(size_t bytes) { pages = static_cast<char*>(realloc(pages, bytes)); }
  char* pages = nullptr;
};

std::vector<void*> g_orders;
Catalogue g_catalogue;

// 20,000 orders stay (20 MB); each comes with ten receipts that go at once.
[[gnu::noinline]] void Open() {
  for (int day = 0; day < 20'000; ++day) {
    g_orders.push_back(TakeOrder());
    void* receipts[10];
    for (void*& receipt : receipts) receipt = PrintReceipt();
    for (void* receipt : receipts) free(receipt);
    if (day % 1000 == 0) g_catalogue.Grow(static_cast<size_t>(day + 1) * 400);
  }
}

// 30 MB that come and go.
[[gnu::noinline]] void Rush() {
  std::vector<void*> orders;
  for (int i = 0; i < 30'000; ++i) orders.push_back(TakeOrder());
  std::thread([&] {
    for (void* order : orders) free(order);
  }).join();
}

bool Write(const std::string& folder, const char* kind) {
  const std::string path = folder + "/" + kind + ".pb.gz";
  const int fd = open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
  const int error = strata_profile(kind, fd);
  if (error != 0) fprintf(stderr, "%s: %s\n", kind, strerror(error));
  close(fd);
  return error == 0;
}

}  // namespace shop

int main(int argc, char** argv) {
  if (argc != 2 || strata_profile == nullptr) {
    fprintf(stderr, argc != 2 ? "usage: shop FOLDER\n" : "strata_profile is not there\n");
    return 2;
  }
  // A first profile has the unwind tables prepared, which the background thread does in its time.
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  strata_profile("heap", nowhere);
  shop::Open();
  shop::Rush();
  // Holes: each second order of the first half goes, so that the others pin their pages.
  for (size_t i = 0; i < shop::g_orders.size() / 2; i += 2) free(shop::g_orders[i]);
  usleep(1'200'000);  // what is charged with waste has lived for a second at least
  bool ok = strata_profile("nonsense", STDOUT_FILENO) == EINVAL;
  ok = strata_profile("heap", -1) == EBADF && ok;
  for (const char* kind : {"heap", "allocs", "peak", "lifetime", "fragmentation"})
    ok = shop::Write(argv[1], kind) && ok;
  return ok ? 0 : 1;
}
