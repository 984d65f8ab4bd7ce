// Programs whose allocations are known site by site, and which write profiles of themselves:
//   profile_cases CASE DIRECTORY
// `mix` prints one line a site: its name, live objects, live bytes, allocated bytes.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>

#include <new>
#include <string>
#include <vector>

#include "../edge/case.h"

namespace {

using Profile = int (*)(const char*, int);

int Write(const char* kind, const std::string& path) {
  auto* profile = reinterpret_cast<Profile>(dlsym(RTLD_DEFAULT, "strata_profile"));
  CHECK(profile != nullptr);
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  CHECK(fd >= 0);
  const int error = profile(kind, fd);
  CHECK(close(fd) == 0);
  return error;
}

std::string Directory() { return std::string(case_argv[2]) + "/"; }

// Walks need tables that are made off the path; asking for a profile makes them.
void Prepare() { CHECK(Write("heap", "/dev/null") == 0); }

#define SITE(NAME, ...) extern "C" [[gnu::noinline]] void* NAME(__VA_ARGS__)

// The volatile keeps the call from becoming a jump, which leaves no frame.
SITE(SiteMalloc, size_t n) {
  void* volatile p = malloc(n);
  return p;
}
SITE(SiteCalloc, size_t n) {
  void* volatile p = calloc(n, 1);
  return p;
}
SITE(SiteNew, size_t n) {
  void* volatile p = ::operator new(n);
  return p;
}
SITE(SiteNewAligned, size_t n) {
  void* volatile p = ::operator new(n, std::align_val_t{512});
  return p;
}
SITE(SiteMemalign, size_t n) {
  void* p = nullptr;
  CHECK(posix_memalign(&p, 64, n) == 0);
  return p;
}
SITE(SiteLarge, size_t n) {
  void* volatile p = malloc(n);
  return p;
}
SITE(SiteGrow, size_t n) {
  char* volatile p = static_cast<char*>(malloc(64));
  for (size_t size = 64; size < n; size *= 2) {
    p = static_cast<char*>(realloc(p, size * 2));
    CHECK(malloc_usable_size(p) >= size * 2);
  }
  return p;
}
// As a program appends to a string: most steps stay in the class.
SITE(SiteAppend, size_t n) {
  void* volatile p = malloc(64);
  for (size_t size = 64; size < n; size += 16) p = realloc(p, size + 16);
  return p;
}
SITE(SiteGrowLarge, size_t n) {
  void* volatile p = malloc(n / 4);
  p = realloc(p, n / 2);
  p = realloc(p, n);
  return p;
}
SITE(SiteShrink, size_t n) {
  void* volatile p = malloc(n);
  p = realloc(p, n - n / 8);  // in place
  return p;
}
SITE(SiteOverThere, size_t n) {
  void* volatile p = malloc(n);
  return p;
}

struct Block {
  void* p;
  size_t size;
  unsigned char paint;
};

struct Site {
  const char* name;
  void* (*allocate)(size_t);
  void (*release)(Block);
  size_t size;
  size_t objects;
  size_t left;  // bytes asked for of a block when it is done
  std::vector<Block> live;
};

void Free(Block b) { free(b.p); }
void Delete(Block b) { ::operator delete(b.p); }
void DeleteSized(Block b) { ::operator delete(b.p, b.size); }
void DeleteAligned(Block b) { ::operator delete(b.p, b.size, std::align_val_t{512}); }

std::vector<Site> Sites() {
  return {{"SiteMalloc", SiteMalloc, Free, 104, 40'000, 104, {}},
          {"SiteCalloc", SiteCalloc, Free, 1000, 20'000, 1000, {}},
          {"SiteNew", SiteNew, DeleteSized, 48, 60'000, 48, {}},
          {"SiteNewAligned", SiteNewAligned, DeleteAligned, 1024, 10'000, 1024, {}},
          {"SiteMemalign", SiteMemalign, Free, 192, 20'000, 192, {}},
          {"SiteLarge", SiteLarge, Delete, 600'000, 40, 600'000, {}},
          {"SiteGrow", SiteGrow, Free, 4096, 4'000, 4096, {}},
          {"SiteAppend", SiteAppend, Free, 4096, 4'000, 4096, {}},
          {"SiteGrowLarge", SiteGrowLarge, Free, 2 << 20, 16, 2 << 20, {}},
          {"SiteShrink", SiteShrink, Free, 20'000, 2'000, 17'500, {}}};
}

void CheckPaint(const Block& b) {
  const auto* bytes = static_cast<const unsigned char*>(b.p);
  CHECK(bytes[0] == b.paint && bytes[b.size - 1] == b.paint);
  CHECK(malloc_usable_size(b.p) >= b.size);
}

// Half of the blocks of every site stay; the sites take turns, so that pages are shared.
void Mix(std::vector<Site>& sites) {
  size_t most = 0;
  for (Site& s : sites) {
    most = s.objects > most ? s.objects : most;
    s.live.reserve(s.objects);
  }
  for (size_t i = 0; i < most; ++i) {
    for (Site& s : sites) {
      if (i >= s.objects) continue;
      Block b{s.allocate(s.size), s.left, static_cast<unsigned char>(i)};
      CHECK(b.p != nullptr);
      memset(b.p, b.paint, b.size < 4096 ? b.size : 1);
      static_cast<unsigned char*>(b.p)[b.size - 1] = b.paint;
      if (i % 2 == 0) {
        s.live.push_back(b);
      } else {
        CheckPaint(b);
        s.release(b);
      }
    }
  }
}

void* FreeAll(void* sites) {
  for (Site& s : *static_cast<std::vector<Site>*>(sites)) {
    for (Block& b : s.live) {
      CheckPaint(b);
      s.release(b);
    }
    s.live.clear();
  }
  return nullptr;
}

}  // namespace

CASE(mix) {
  Prepare();
  std::vector<Site> sites = Sites();
  Mix(sites);
  for (const char* kind : {"heap", "allocs", "peak"}) CHECK(Write(kind, Directory() + kind) == 0);
  for (Site& s : sites) {
    // What was asked beyond what is left at last counts as allocated too.
    const size_t allocated = s.objects * s.size;
    printf("%s %zu %zu %zu\n", s.name, s.live.size(), s.live.size() * s.left, allocated);
  }
  fflush(stdout);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    // The child knows what its parent had, and goes on by itself.
    for (Site& s : sites) {
      for (Block& b : s.live) CheckPaint(b);
    }
    FreeAll(&sites);
    for (int i = 0; i < 20'000; ++i) static_cast<void>(SiteOverThere(500));
    CHECK(Write("heap", Directory() + "child") == 0);
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  FreeAll(&sites);
  CHECK(Write("heap", Directory() + "after") == 0);
}

CASE(lifetimes) {
  Prepare();
  std::vector<Site> sites(1);
  sites[0] = {"SiteOverThere", SiteOverThere, Free, 64, 0, 64, {}};
  for (int i = 0; i < 2000; ++i) {
    sites[0].live.push_back({SiteOverThere(64), 64, 0});
    *static_cast<unsigned char*>(sites[0].live.back().p) = 0;
    static_cast<unsigned char*>(sites[0].live.back().p)[63] = 0;
    free(SiteMalloc(64));
  }
  void* kept = SiteNew(64);
  usleep(200'000);
  pthread_t other;
  CHECK(pthread_create(&other, nullptr, FreeAll, &sites) == 0);
  CHECK(pthread_join(other, nullptr) == 0);
  CHECK(Write("lifetime", Directory() + "lifetime") == 0);
  ::operator delete(kept);
}

CASE(fragmentation) {
  Prepare();
  std::vector<void*> blocks;
  for (int i = 0; i < 64'000; ++i) blocks.push_back(SiteMalloc(104));
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (i % 64 != 0) free(blocks[i]);
  }
  usleep(1'300'000);
  CHECK(Write("fragmentation", Directory() + "fragmentation") == 0);
  for (size_t i = 0; i < blocks.size(); i += 64) free(blocks[i]);
}

CASE(double_free) {
  void* volatile p = SiteMalloc(104);
  void* volatile q = p;
  free(p);
  free(q);
}

CASE(inside) {
  char* volatile p = static_cast<char*>(SiteMalloc(512));
  free(p + 256);
}

CASE(off) {
  free(SiteMalloc(1 << 20));
  CHECK(Write("heap", "/dev/null") == ENOTSUP);
  CHECK(Write("no such kind", "/dev/null") == EINVAL);
}
