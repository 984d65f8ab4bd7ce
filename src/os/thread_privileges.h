// A thread of the library's own keeps nothing that the program may want to give up: no capability,
// no privilege to gain by exec, no real-time priority, no descriptor that leads anywhere. Sits in
// os; for a thread that nobody but the library runs on.
#pragma once

namespace strata {

// Whether the thread can still change its user and groups. libc has every thread do that when one
// does, and ends the process if one can't: kNo is for who ends the thread before.
enum class KeepIds : bool { kNo, kYes };

// The calling thread's alone. Nothing of it can fail in a way that matters: what the kernel refuses
// to take, the thread did not have.
void DropThreadPrivileges(KeepIds ids);

// Also on the CPUs of the main thread, not only on those of whichever thread happened to start this
// one: that may be bound to a CPU that it wants for itself.
void RunWhereProcessRuns();

}  // namespace strata
