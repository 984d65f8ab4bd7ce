// Hoard as it is preloaded, save for its source: the page heap's window stays for the whole
// process, of which a test or a fuzzer makes many heaps. Here all goes back when the heap ends.
#pragma once

#include "heaps/hoard.h"
#include "strata/layers/source/aligned_mmap.h"

namespace strata::test {

using HoardCore = HoardOver<layers::AlignedMmap<ProcessHoard::superblock>>;

}  // namespace strata::test
