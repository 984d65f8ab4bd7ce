// Tells who uses an object of a checked domain after his operation has ended: a handler of SIGSEGV
// that names the type, and then lets the fault happen as it would have. Sits in regions.
#pragma once

namespace strata {

// Set with the first checked domain; whoever had the signal keeps it for all other faults.
void InstallStaleUseHandler();

}  // namespace strata
