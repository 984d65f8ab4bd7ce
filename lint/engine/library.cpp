// What calls of libc's functions do by their constant arguments (library.h).
#include "library.h"

#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/ConstantRange.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/MDBuilder.h>

#include <cstdint>
#include <optional>
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
  constexpr auto kNone = llvm::StringRef::npos;
  for (std::size_t at = format.find('%'); at != kNone; at = format.find('%', at + 1)) {
    at = format.find_first_not_of("0123456789.*-+ #'$hljztLq", at + 1);
    if (at == kNone) break;  // the format ends within it
    if (format[at] == 'n') return true;
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

// What POSIX says that the function returns: 0, or -1 if it failed.
bool succeeds_or_fails(const llvm::Function& f) {
  static const std::set<llvm::StringRef> names{
      "access",      "bind",        "chdir",      "chmod",      "chown",     "chroot",
      "close",       "closedir",    "connect",    "execv",      "execve",    "execvp",
      "faccessat",   "fchdir",      "fchmod",     "fchmodat",   "fchown",    "fchownat",
      "fclose",      "fdatasync",   "fflush",     "flock",      "fseek",     "fseeko",
      "fstat",       "fstat64",     "fstatat",    "fsync",      "ftruncate", "futimens",
      "getpeername", "getsockname", "getsockopt", "kill",       "lchown",    "link",
      "listen",      "lstat",       "lstat64",    "mkdir",      "mkdirat",   "mkfifo",
      "munmap",      "nanosleep",   "pipe",       "pipe2",      "rename",    "renameat",
      "rmdir",       "setgid",      "setpgid",    "setsockopt", "setuid",    "shutdown",
      "sigaction",   "sigprocmask", "socketpair", "stat",       "stat64",    "symlink",
      "tcgetattr",   "tcsetattr",   "truncate",   "unlink",     "unlinkat",  "utime",
      "utimensat"};
  return names.count(f.getName()) != 0;
}

// The same: a number that is not negative, or -1.
bool counts_or_fails(const llvm::Function& f) {
  static const std::set<llvm::StringRef> names{
      "accept",   "accept4", "creat",  "dup",      "dup2",    "dup3",     "epoll_wait",
      "fileno",   "fork",    "lseek",  "lseek64",  "open",    "open64",   "openat",
      "openat64", "poll",    "pread",  "pread64",  "pwrite",  "pwrite64", "read",
      "readlink", "readv",   "recv",   "recvfrom", "recvmsg", "select",   "send",
      "sendmsg",  "sendto",  "socket", "waitpid",  "write",   "writev"};
  return names.count(f.getName()) != 0;
}

void note_answers(llvm::Function& f) {
  if (!f.getReturnType()->isIntegerTy()) return;
  const unsigned width = f.getReturnType()->getIntegerBitWidth();
  const auto end = succeeds_or_fails(f) ? std::optional(llvm::APInt(width, 1))
                   : counts_or_fails(f) ? std::optional(llvm::APInt::getSignedMinValue(width))
                                        : std::nullopt;
  if (!end) return;
  const llvm::ConstantRange range(llvm::APInt::getAllOnes(width), *end);
  f.addRetAttr(llvm::Attribute::get(f.getContext(), llvm::Attribute::Range, range));
}

// Variables of the library's that nobody changes: what was read from one is what is read again.
void note_streams(llvm::GlobalVariable& stream) {
  static const std::set<llvm::StringRef> names{"stdin", "stdout", "stderr"};
  if (names.count(stream.getName()) == 0 || !stream.isDeclaration()) return;
  const auto is_read = [](const llvm::User* user) { return llvm::isa<llvm::LoadInst>(user); };
  if (!llvm::all_of(stream.users(), is_read)) return;
  for (llvm::User* user : stream.users()) {
    llvm::cast<llvm::LoadInst>(user)->setMetadata(llvm::LLVMContext::MD_invariant_load,
                                                  llvm::MDNode::get(stream.getContext(), {}));
  }
}

// The constants that a value is one of; nothing if it may be another.
std::optional<llvm::ConstantRange> constants(const llvm::Value* v, int depth = 3) {
  if (const auto* number = llvm::dyn_cast<llvm::ConstantInt>(v))
    return llvm::ConstantRange(number->getValue());
  std::vector<const llvm::Value*> choices;
  if (const auto* either = llvm::dyn_cast<llvm::SelectInst>(v))
    choices = {either->getTrueValue(), either->getFalseValue()};
  else if (const auto* phi = llvm::dyn_cast<llvm::PHINode>(v))
    choices.assign(phi->op_begin(), phi->op_end());
  std::optional<llvm::ConstantRange> all;
  for (const llvm::Value* choice : choices) {
    const auto one = depth > 0 ? constants(choice, depth - 1) : std::nullopt;
    if (!one) return std::nullopt;
    all = all ? all->unionWith(*one) : *one;
  }
  return all;
}

// The numbers that the variable can hold: nobody takes its address, and all that is stored to it
// here is constant.
std::optional<llvm::ConstantRange> held_by(const llvm::GlobalVariable& variable) {
  const auto* first = llvm::dyn_cast<llvm::ConstantInt>(variable.getInitializer());
  if (first == nullptr) return std::nullopt;
  llvm::ConstantRange all(first->getValue());
  for (const llvm::User* user : variable.users()) {
    if (llvm::isa<llvm::LoadInst>(user) && user->getType() == first->getType()) continue;
    const auto* store = llvm::dyn_cast<llvm::StoreInst>(user);
    if (store == nullptr || store->getPointerOperand() != &variable) return std::nullopt;
    const auto one = constants(store->getValueOperand());
    if (!one || one->getBitWidth() != all.getBitWidth()) return std::nullopt;
    all = all.unionWith(*one);
  }
  return all;
}

}  // namespace

// Others may be written by a plugin, or by an object that has no bitcode, even if main is here.
void note_variables(llvm::Module& module) {
  for (llvm::GlobalVariable& g : module.globals()) {
    if (!g.hasInitializer() || !g.hasLocalLinkage()) continue;
    const auto all = held_by(g);
    if (!all || all->isFullSet()) continue;
    llvm::MDNode* range =
        llvm::MDBuilder(module.getContext()).createRange(all->getLower(), all->getUpper());
    for (llvm::User* user : g.users()) {
      if (auto* load = llvm::dyn_cast<llvm::LoadInst>(user))
        load->setMetadata(llvm::LLVMContext::MD_range, range);
    }
  }
}

void note_library(llvm::Module& module) {
  for (llvm::Function& f : module) {
    if (!f.isDeclaration()) continue;
    if (is_error(f)) note_ends(f);
    if (prints(f)) note_printed(f);
    note_answers(f);
  }
  for (llvm::GlobalVariable& g : module.globals()) note_streams(g);
}

}  // namespace lint
