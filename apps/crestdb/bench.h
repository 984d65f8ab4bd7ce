// `crestdb bench`: loads a store, lets it run up, measures it.
#pragma once

#include "options.h"

namespace crest {

int RunBench(Options& options);

}  // namespace crest
