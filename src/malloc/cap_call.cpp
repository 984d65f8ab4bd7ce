// See cap_call.h. Compiled with exceptions, for what the function throws passes through; the C++
// run time's symbols are weak, as in heaps/preload/nothrow_new.cpp: where there is none, nothing
// throws.
#include "malloc/cap_call.h"

#include "malloc/scopes.h"

asm(".weak __gxx_personality_v0\n"
    ".weak _ZSt9terminatev\n"
    ".weak __cxa_begin_catch\n"
    ".weak __cxa_end_catch\n"
    ".weak _Unwind_Resume\n");

namespace strata {

namespace {

class DropIfThrown {
 public:
  explicit DropIfThrown(strata_scope* held) : held_(held) {}
  ~DropIfThrown() { DropScope(held_); }
  DropIfThrown(const DropIfThrown&) = delete;
  DropIfThrown& operator=(const DropIfThrown&) = delete;
  void Returned() { held_ = nullptr; }

 private:
  strata_scope* held_;
};

}  // namespace

size_t CapCall::Ask(strata_scope* asker) const {
  const OutOfScope out;
  DropIfThrown drop(asker);
  const size_t answer = reached(context, held, wanted, cap);
  drop.Returned();
  return answer;
}

}  // namespace strata
