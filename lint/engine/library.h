// What calls of libc's functions do by their constant arguments, noted on them.
#pragma once

#include <llvm/IR/Module.h>

namespace lint {

void note_library(llvm::Module& module);

}  // namespace lint
