// Answers one control request. Runs on the background thread; what it writes goes to a file in
// memory, so no client can hold it up. Sits in control.
#pragma once

#include "control/request.h"

namespace strata {

// Writes the answer to `fd`. Null, or the error to tell the client. A profile over some seconds is
// not answered here: see client.h.
const char* WriteAnswer(const ControlRequest& request, int fd);

// What an error of the profile functions means to a client.
const char* ExplainProfileError(int error);

}  // namespace strata
