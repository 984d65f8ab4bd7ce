// What has to be done around a fork: pthread_atfork's three functions, for whoever makes a copy of
// the process without calling fork. Sits in malloc.
#pragma once

namespace strata {

void BeforeFork();
void AfterForkInParent();
void AfterForkInChild();

// In a copy that was made without these: it starts afresh, with the locks as they are.
void RenewUnseenChild();

// Whether the calling thread has a lock that a fork takes: in a signal handler.
bool HoldsOwnLock();

}  // namespace strata
