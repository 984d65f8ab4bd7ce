// See moment.h.
#include "base/moment.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>

#include <cstdint>

#include "strata/raw_io.h"

namespace strata {

void Nap(long ns) {
  const uint32_t never = 0;
  const timespec wait{0, ns};
  while (raw::Call(SYS_futex, raw::Word(&never), FUTEX_WAIT_PRIVATE, 0, raw::Word(&wait)) ==
         -EINTR) {
  }
}

}  // namespace strata
