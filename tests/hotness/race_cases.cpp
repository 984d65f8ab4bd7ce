// Objects that move under threads, for a program that ThreadSanitizer watches: "right" has no race,
// "wrong" one in a variable of its own.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "strata/hot_ptr.h"

namespace {

using strata::hot_atomic_ptr;
using strata::hot_domain;
using strata::hot_ptr;
using strata::hot_scope;

// Its move is the program's own code, run by the domain's thread, and moves a guide and a string.
struct Page {
  Page(hot_domain& domain, unsigned n)
      : number(n), text("page " + std::to_string(n)), bytes(domain.make<unsigned char[]>(n % 300)) {
    hot_scope op(domain);
    memset(bytes.get(op), static_cast<int>(n & 0xff), n % 300);
  }
  unsigned number;
  std::string text;
  hot_ptr<unsigned char[]> bytes;
};
struct Version {
  unsigned long number, twice;
};

unsigned g_plain = 0;

void Require(bool holds) {
  if (!holds) abort();
}

}  // namespace

int main(int, char** argv) {
  const bool wrong = strcmp(argv[1], "wrong") == 0;
  hot_domain::options o;
  o.period_ms = 2;
  o.cpu_share = 1;
  o.reclaim = STRATA_HOT_RECLAIM_NONE;
  hot_domain domain{o};
  std::mutex mutex;
  std::vector<hot_ptr<Page>> pages(500);
  std::vector<hot_atomic_ptr<Version>> versions(64);
  for (unsigned i = 0; i < 500; ++i) pages[i] = domain.make<Page>(domain, i);
  for (auto& v : versions) {
    hot_scope op(domain);
    v.store(op, domain.make<Version>(Version{1, 2}));
  }
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      unsigned random = t;
      for (int i = 0; i < 4000; ++i) {
        random = random * 1664525 + 1013904223;
        const unsigned n = random >> 8;
        if (wrong) ++g_plain;
        {
          const std::lock_guard hold(mutex);
          hot_ptr<Page>& at = pages[n % 8 != 0 ? n % 50 : n % 500];
          if (n % 16 == 0) at = domain.make<Page>(domain, n);
          if (n % 64 == 1) std::swap(at, pages[n % 500]);
          hot_scope op(domain);
          Page& page = *at.get(op);
          Require(page.text == "page " + std::to_string(page.number));
          if (page.bytes.size(op) > 0) Require(page.bytes.get(op)[0] == (page.number & 0xff));
        }
        hot_scope op(domain);
        hot_atomic_ptr<Version>& at = versions[n % 64];
        Version* const seen = at.load(op);
        Require(seen->twice == 2 * seen->number);
        if (n % 4 == 0) {
          hot_ptr<Version> next = domain.make<Version>(*seen);
          next.get(op)->number += 1;
          next.get(op)->twice += 2;
          at.compare_exchange(op, seen, next);
        }
        Require(seen->twice == 2 * seen->number);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (int i = 0; i < 4; ++i) domain.collect_now();
  Require(domain.stats().moves > 0);
}
