// See cap_call.h. Compiled with exceptions, for what the function throws passes through.
#include "regions/cap_call.h"

#include "base/weak_cxx_run_time.h"
#include "regions/scopes.h"

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
