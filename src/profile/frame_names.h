// What the functions on stacks are called, as the tokens of a model of lifetimes need it
// (lifetime/tokens.h): by the symbol in the file's own tables, else by its build id
// and where it begins; and the place in the file that each returns to. Reads /proc/self/maps and
// the files; where a file can't be opened, what is mapped of it. Sits in profile; for the
// background thread: it may take milliseconds.
#pragma once

#include <cstddef>
#include <cstdint>

#include "profile/elf_symbols.h"
#include "profile/mappings.h"
#include "profile/scratch_array.h"

namespace strata {

// Whether files may be opened for names.
enum class OpensFiles : bool { kNo, kYes };

class FrameNames {
 public:
  static constexpr size_t kMostBytes = 4096;  // of a name that count

  // Where names go. Not ended by a zero byte; empty where nothing is known.
  class Sink {
   public:
    using Function = void (*)(Sink& self, uintptr_t frame, const char* name, size_t length);
    explicit Sink(Function take) : take_(take) {}
    void Take(uintptr_t frame, const char* name, size_t length) {
      take_(*this, frame, name, length);
    }

   private:
    Function take_;
  };

  // `frames`: return addresses, ascending, none twice. Each gets its name. False: no memory; some
  // are missing then.
  bool Name(const uintptr_t* frames, size_t n, OpensFiles opens, Sink& sink);

 private:
  bool NameIn(const Mapping& code, const Mapping& first, const uintptr_t* frames, size_t n,
              OpensFiles opens, Sink& sink);
  // By the file that is open.
  bool Ask(const Mapping& code, const BuildId& id, const uintptr_t* frames, size_t n, Sink& sink);

  ScratchArray<char> maps_;
  ScratchArray<FunctionQuery> queries_;
  ScratchArray<Elf64_Sym> buffer_;
  ScratchArray<char> name_;
  ElfSymbols elf_;
};

}  // namespace strata
