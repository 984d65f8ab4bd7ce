// `crestdb serve`: the store over TCP on 127.0.0.1.
#pragma once

#include "options.h"

namespace crest {

int RunServer(Options& options);

}  // namespace crest
