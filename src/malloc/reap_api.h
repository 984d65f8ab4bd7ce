// What the fork handlers need of the reaps. Sits in malloc.
#pragma once

namespace strata {

void LockReaps();
void UnlockReaps();

}  // namespace strata
