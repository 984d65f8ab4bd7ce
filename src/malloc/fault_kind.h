// What an access did that faulted, and where, by the registers that the kernel gives to a handler
// of SIGSEGV; each architecture has its own (x86_64/fault_kind.cpp). Sits in malloc.
#pragma once

#include <cstdint>

namespace strata {

// `context`: the handler's third argument.
bool WasWrite(const void* context);
uintptr_t FaultingInstruction(const void* context);

}  // namespace strata
