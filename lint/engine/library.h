// What holds of a call or a variable by what the whole program says of it, noted on it: what libc's
// functions do by their constant arguments; static variables that only ever hold some constants.
#pragma once

#include <llvm/IR/Module.h>

namespace lint {

void note_library(llvm::Module& module);
void note_variables(llvm::Module& module);

}  // namespace lint
