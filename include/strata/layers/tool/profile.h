// Profile: who asks this heap for how much, and how long it is kept. Counts blocks and bytes by
// size (powers of two), by lifetime (in bytes that were allocated meanwhile), and by call site: the
// code that called the layer's allocate. Below other layers the sites are those layers' callers as
// far as the compiler inlined them; put it on top to see the program's. Read it with for_each_*, or
// write_report(fd). Splice it in below a Locked, or for one thread.
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <bit>
#include <cstdio>
#include <cstring>

#include "strata/layers/heap.h"
#include "strata/trace/address_map.h"

namespace strata::layers {

struct ProfileRow {
  size_t blocks = 0;  // ever
  size_t bytes = 0;
  size_t live_blocks = 0;
  size_t live_bytes = 0;
};

struct Profile {
  template <Heap Below>
  class On : public Through<Below> {
   public:
    static constexpr bool thread_safe = false;
    static constexpr bool blocks_stand_alone = false;
    static constexpr size_t buckets = 65;       // bucket b: numbers of b bits
    static constexpr size_t most_sites = 1024;  // the last one stands for all without room

    using Through<Below>::Through;

    // Not inlined, so that its return address is the place of the call.
    [[gnu::noinline]] void* allocate(size_t size) {
      void* p = this->next_.allocate(size);
      if (p != nullptr) NoteAllocation(p, size, __builtin_return_address(0));
      return p;
    }
    [[gnu::noinline]] void* allocate(size_t size, size_t align)
      requires AlignedHeap<Below>
    {
      void* p = this->next_.allocate(size, align);
      if (p != nullptr) NoteAllocation(p, size, __builtin_return_address(0));
      return p;
    }
    // As a realloc in a trace: the old block ends here, and one of the new size begins.
    [[gnu::noinline]] bool resize(void* p, size_t size)
      requires ResizableHeap<Below>
    {
      if (!this->next_.resize(p, size)) return false;
      NoteFree(p);
      NoteAllocation(p, size, __builtin_return_address(0));
      return true;
    }
    [[gnu::noinline]] void* remap(void* p, size_t size)
      requires RemappingHeap<Below>
    {
      void* to = this->next_.remap(p, size);
      if (to == nullptr) return nullptr;
      NoteFree(p);
      NoteAllocation(to, size, __builtin_return_address(0));
      return to;
    }
    void deallocate(void* p, size_t size) {
      NoteFree(p);
      this->next_.deallocate(p, size);
    }
    void deallocate(void* p)
      requires SizedHeap<Below>
    {
      NoteFree(p);
      this->next_.deallocate(p);
    }
    void clear()
      requires ClearableHeap<Below>
    {
      EndAll();
      this->next_.clear();
    }
    void forget() {
      EndAll();
      Through<Below>::forget();
    }

    // The blocks of sizes from 2^(b-1) to 2^b - 1, where b is the bucket; 0 for those of no bytes.
    const ProfileRow& by_size(size_t bucket) const { return sizes_[bucket]; }
    // How many blocks ended after 2^(b-1) to 2^b - 1 bytes were allocated; 0: none were.
    size_t by_lifetime(size_t bucket) const { return lifetimes_[bucket]; }
    // each(const void* site, const ProfileRow&), in no order; a null site
    // stands for those beyond the table.
    template <class Each>
    void for_each_site(Each&& each) const {
      for (size_t i = 0; i < most_sites; ++i)
        if (sites_[i].row.blocks != 0) each(sites_[i].site, sites_[i].row);
    }

    // A table for people. It allocates nothing, but must not be called from within this heap.
    void write_report(int fd) const {
      dprintf(fd, "%-36s %12s %14s %12s %14s\n", "size up to", "blocks", "bytes", "live", "bytes");
      for (size_t b = 0; b < buckets; ++b)
        if (sizes_[b].blocks != 0) WriteRow(fd, "", Top(b), sizes_[b]);
      dprintf(fd, "call site\n");
      for_each_site([&](const void* site, const ProfileRow& row) {
        char name[kTitle] = "";
        if (site != nullptr) NamePlace(site, name);
        WriteRow(fd, name, reinterpret_cast<size_t>(site), row);
      });
      dprintf(fd, "lifetime, in bytes allocated meanwhile, up to\n");
      for (size_t b = 0; b < buckets; ++b)
        if (lifetimes_[b] != 0) dprintf(fd, "%-36zu %12zu\n", Top(b), lifetimes_[b]);
    }

   private:
    struct Site {
      const void* site = nullptr;
      ProfileRow row;
    };
    struct Block {
      size_t size;
      size_t born;  // bytes allocated before and with it
      uint32_t site;
    };

    static constexpr size_t kTitle = 40;  // of a row, with the null at its end

    static constexpr size_t Bucket(size_t n) { return static_cast<size_t>(std::bit_width(n)); }
    static constexpr size_t Top(size_t bucket) {
      return bucket == 64 ? SIZE_MAX : (size_t{1} << bucket) - 1;
    }
    // A function that the loader knows, or else where in which file: prog+0x11a9, for addr2line.
    static void NamePlace(const void* site, char (&name)[kTitle]) {
      Dl_info info;
      if (dladdr(site, &info) == 0) return;
      if (info.dli_sname != nullptr) {
        snprintf(name, kTitle, "%s", info.dli_sname);
        return;
      }
      const char* slash = strrchr(info.dli_fname, '/');
      const auto offset = static_cast<const char*>(site) - static_cast<const char*>(info.dli_fbase);
      snprintf(name, kTitle, "%.20s+%#tx", slash != nullptr ? slash + 1 : info.dli_fname, offset);
    }
    static void WriteRow(int fd, const char* name, size_t number, const ProfileRow& row) {
      char title[kTitle];
      if (*name != '\0') {
        snprintf(title, sizeof(title), "%s", name);
      } else {
        snprintf(title, sizeof(title), number > (size_t{1} << 40) ? "%#zx" : "%zu", number);
      }
      dprintf(fd, "%-36s %12zu %14zu %12zu %14zu\n", title, row.blocks, row.bytes, row.live_blocks,
              row.live_bytes);
    }

    void NoteAllocation(void* p, size_t size, const void* site) {
      allocated_ += size;
      const Block block{size, allocated_, SiteOf(site)};
      if (!blocks_.Put(p, block)) return;
      for (ProfileRow* row : {&sizes_[Bucket(size)], &sites_[block.site].row}) {
        ++row->blocks;
        row->bytes += size;
        ++row->live_blocks;
        row->live_bytes += size;
      }
    }
    void NoteFree(void* p) {
      Block block;
      if (blocks_.Take(p, &block)) End(block);
    }
    void EndAll() {
      blocks_.ForEach([this](const void*, const Block& block) { End(block); });
      blocks_.Clear();
    }
    void End(const Block& block) {
      ++lifetimes_[Bucket(allocated_ - block.born)];
      for (ProfileRow* row : {&sizes_[Bucket(block.size)], &sites_[block.site].row}) {
        --row->live_blocks;
        row->live_bytes -= block.size;
      }
    }
    uint32_t SiteOf(const void* site) {
      uint32_t i =
          static_cast<uint32_t>((reinterpret_cast<uintptr_t>(site) * 0x9e3779b97f4a7c15u) >> 54);
      for (uint32_t tries = 0; tries < 64; ++tries, i = (i + 1) % (most_sites - 1)) {
        i %= most_sites - 1;
        if (sites_[i].site == site) return i;
        if (sites_[i].site == nullptr) {
          sites_[i].site = site;
          return i;
        }
      }
      return most_sites - 1;
    }

    trace::AddressMap<Block> blocks_;
    size_t allocated_ = 0;
    ProfileRow sizes_[buckets];
    size_t lifetimes_[buckets] = {};
    Site sites_[most_sites];
  };
};

}  // namespace strata::layers
