// Rules for one walk through any code: by the tables, and where a file has none yet, by the file
// itself, which the walk then counts as one that met the file. For a side stack, as LoadedCode is.
// Sits in profile/unwind.
#pragma once

#include <cstddef>
#include <cstdint>

#include "profile/unwind/loaded_code.h"
#include "profile/unwind/unwind_index.h"

namespace strata {

class AnyCode {
 public:
  // `index`: pinned as long as this lives, or null.
  explicit AnyCode(const UnwindIndex* index) : index_(index) {}

  FoundRule Find(uintptr_t pc) const {
    FoundRule known;
    if (index_ != nullptr) known = index_->Find(pc);
    if (known.in_module) return known;
    if (known.table_missing) Meet(*index_->ModuleAt(pc));
    const FoundRule loaded = LoadedCode().Find(pc);
    if (known.table_missing && !loaded.in_module) return known;  // no news to be had by a refresh
    met_new_file_ |= loaded.in_module && !known.table_missing;
    return loaded;
  }
  // One that the linker knows and the index does not.
  bool met_new_file() const { return met_new_file_; }

 private:
  static constexpr size_t kFiles = 16;  // of more, some may count twice

  // Once a walk, however often it comes through.
  void Meet(CodeModule& file) const {
    for (const CodeModule* met : met_) {
      if (met == &file) return;
    }
    met_[next_++ % kFiles] = &file;
    index_->NoteMeeting(file);
  }

  const UnwindIndex* index_;
  mutable const CodeModule* met_[kFiles] = {};
  mutable size_t next_ = 0;
  mutable bool met_new_file_ = false;
};

}  // namespace strata
