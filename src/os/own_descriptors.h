// Gives the calling thread a descriptor table of its own, empty. What the background thread opens
// then has no number in the program's table, and a program that closes everything (a daemon) closes
// nothing of ours; nor do we keep open what the program closes. Sits in os.
#pragma once

namespace strata {

// False if the kernel refuses: the table is then still the program's, untouched. Descriptors 0 to 2
// of the new table are epoll descriptors, on which every read and write fails and which lead
// nowhere, so that nothing else can be taken for the standard streams.
bool TakeOwnDescriptors();

}  // namespace strata
