// What calls of libc's functions do by their constant arguments (library.h).
#include "library.h"

#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/InstrTypes.h>

#include <set>
#include <vector>

namespace lint {
namespace {

std::vector<llvm::CallBase*> calls_of(llvm::Function& f) {
  std::vector<llvm::CallBase*> calls;
  for (llvm::User* user : f.users()) {
    auto* call = llvm::dyn_cast<llvm::CallBase>(user);
    if (call != nullptr && call->getCalledFunction() == &f) calls.push_back(call);
  }
  return calls;
}

// glibc's: others of that name take other things.
bool is_error(const llvm::Function& f) {
  return f.isVarArg() && ((f.getName() == "error" && f.arg_size() == 3) ||
                          (f.getName() == "error_at_line" && f.arg_size() == 5));
}

// It ends the process if its first argument, a status, is not 0.
void note_ends(llvm::Function& error) {
  for (llvm::CallBase* call : calls_of(error)) {
    const auto* status = llvm::dyn_cast<llvm::ConstantInt>(call->getArgOperand(0));
    if (status != nullptr && !status->isZero()) call->setDoesNotReturn();
  }
}

bool prints(const llvm::Function& f) {
  static const std::set<llvm::StringRef> names{
      "printf",        "fprintf",       "dprintf",        "sprintf",
      "snprintf",      "asprintf",      "__printf_chk",   "__fprintf_chk",
      "__dprintf_chk", "__sprintf_chk", "__snprintf_chk", "__asprintf_chk",
      "syslog",        "__syslog_chk",  "warn",           "warnx",
      "err",           "errx"};
  return f.isVarArg() && f.arg_size() != 0 && (names.count(f.getName()) != 0 || is_error(f));
}

// Whether %n is in the format.
bool counts(llvm::StringRef format) {
  for (std::size_t at = format.find('%'); at < format.size(); at = format.find('%', at + 1)) {
    at = format.find_first_not_of("0123456789.*-+ #'$hljztLq", at + 1);
    if (at < format.size() && format[at] == 'n') return true;
  }
  return false;
}

// What is printed is read.
void note_printed(llvm::Function& f) {
  const auto fixed = static_cast<unsigned>(f.arg_size());
  for (llvm::CallBase* call : calls_of(f)) {
    llvm::StringRef format;
    if (!llvm::getConstantStringInfo(call->getArgOperand(fixed - 1), format) || counts(format))
      continue;
    for (unsigned a = fixed; a < call->arg_size(); ++a) {
      if (call->getArgOperand(a)->getType()->isPointerTy())
        call->addParamAttr(a, llvm::Attribute::ReadOnly);
    }
  }
}

}  // namespace

void note_library(llvm::Module& module) {
  for (llvm::Function& f : module) {
    if (!f.isDeclaration()) continue;
    if (is_error(f)) note_ends(f);
    if (prints(f)) note_printed(f);
  }
}

}  // namespace lint
