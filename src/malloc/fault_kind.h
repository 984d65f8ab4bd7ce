// What an access did that faulted, by the registers that the kernel gives to a handler of SIGSEGV;
// each architecture has its own (x86_64/fault_kind.cpp). Sits in malloc.
#pragma once

namespace strata {

// `context`: the handler's third argument.
bool WasWrite(const void* context);

}  // namespace strata
