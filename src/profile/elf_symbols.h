// The functions of an ELF file, by its own tables as they stand on disk: .symtab, or .dynsym where
// that is stripped, and where functions begin by .eh_frame_hdr. The rule is that of
// lifetime/tokens.h, which strata/objfile.py has as well. Every read is checked: a file that
// lies about itself yields less. Sits in profile; for the background thread.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>

#include "profile/mappings.h"
#include "profile/scratch_array.h"

namespace strata {

// A place in a file, and what was found there.
struct FunctionQuery {
  uint64_t address = 0;  // in the file's own address space
  uint64_t start = 0;    // of the symbol
  uint64_t size = 0;     // 0: the symbol says none
  uint64_t name_at = 0;  // where in the file its name is; 0: there is no symbol
};

class ElfSymbols {
 public:
  // Symbols are in sections of the file, which are not mapped.
  enum class Has : bool { kSegmentsOnly, kAll };
  // `file` reads at offsets in the file, and outlives this. False: no ELF file of this machine.
  bool Open(MemoryReader& file, Has has = Has::kAll);

  // The address that the file gives to what stands at an offset. False: no segment has it.
  bool AddressOf(uint64_t offset, uint64_t* address) const;
  // `queries`: ascending by address. `buffer`: scratch. False: no memory, nothing was found.
  bool FindSymbols(FunctionQuery* queries, size_t n, ScratchArray<Elf64_Sym>& buffer);
  // At most `most` bytes of the name; its length.
  size_t ReadName(const FunctionQuery& query, char* name, size_t most);
  // False: the unwind table is none that linkers write, or begins behind the address.
  bool FunctionStart(uint64_t address, uint64_t* start);

 private:
  bool FindTables();
  void NoteSymbol(const Elf64_Sym& symbol, FunctionQuery* queries, size_t n) const;

  static constexpr size_t kMostSegments = 64;

  MemoryReader* file_ = nullptr;
  Elf64_Ehdr header_ = {};
  Elf64_Phdr segments_[kMostSegments];
  size_t segment_count_ = 0;
  Elf64_Shdr symbols_ = {};
  Elf64_Shdr names_ = {};
};

}  // namespace strata
