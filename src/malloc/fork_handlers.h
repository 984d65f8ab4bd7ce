// What has to be done around a fork: pthread_atfork's three functions, for whoever makes a copy of
// the process without calling fork. Sits in malloc.
#pragma once

namespace strata {

void BeforeFork();
void AfterForkInParent();
void AfterForkInChild();

}  // namespace strata
