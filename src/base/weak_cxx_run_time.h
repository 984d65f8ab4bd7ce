// Included once in each file of the run time that is compiled with exceptions. The C++ run time's
// symbols become weak there, because a C program that preloads the library has none; then nothing
// can throw. clang names std::terminate too. Sits in base.
#pragma once

asm(".weak __gxx_personality_v0\n"
    ".weak _ZSt9terminatev\n"
    ".weak __cxa_begin_catch\n"
    ".weak __cxa_end_catch\n"
    ".weak _Unwind_Resume\n");
