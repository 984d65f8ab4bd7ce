// A seccomp filter that knows a list of system calls and ends the process at any other.
#ifndef STRATA_TESTS_PRELOAD_ALLOWLIST_H_
#define STRATA_TESTS_PRELOAD_ALLOWLIST_H_

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ALLOWLIST_MOST 64

// Forbids all calls but these from here on; `flags` as seccomp(2) takes them. 0, or -1 with errno.
static inline int AllowOnly(const int* calls, size_t n, unsigned flags, unsigned otherwise) {
  struct sock_filter code[ALLOWLIST_MOST + 6];
  size_t at = 0;
  if (n > ALLOWLIST_MOST) return -1;
  code[at++] =
      (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
  code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
  code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  code[at++] =
      (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i < n; ++i) {
    code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i],
                                              (unsigned char)(n - i), 0);
  }
  code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, otherwise);
  code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const struct sock_fprog program = {(unsigned short)at, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

#endif
