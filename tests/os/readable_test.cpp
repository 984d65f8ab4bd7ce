// Whether memory can be read, also under a system call filter that answers for the kernel.
#include "os/readable.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

#include "looked.h"

namespace strata {
namespace {

TEST(Readable, TellsMappedFromProtectedAndAbsent) {
  void* p = mmap(nullptr, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(p, MAP_FAILED);
  const auto at = reinterpret_cast<uintptr_t>(p);
  ASSERT_EQ(mprotect(static_cast<char*>(p) + 4096, 4096, PROT_NONE), 0);
  EXPECT_TRUE(IsReadable(at));
  EXPECT_TRUE(IsReadable(at + 4088));
  EXPECT_FALSE(IsReadable(at + 4096));
  munmap(p, 8192);
  EXPECT_FALSE(IsReadable(at));
  EXPECT_FALSE(IsReadable(0));
}

// Refuses the question with EPERM, as a container's filter may refuse calls with odd arguments.
bool FilterTheQuestion() {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 2, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof(code) / sizeof(code[0]), code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(Readable, NothingIsKnownWhereAFilterAnswers) {
  EXPECT_EXIT(
      {
        if (!FilterTheQuestion()) _exit(2);
        alignas(8) const uint64_t word = 0;
        const auto at = reinterpret_cast<uintptr_t>(&word);
        _exit(IsReadable(at) || IsReadable(8) ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace strata
