// Runs a command in which chosen system calls fail, by a seccomp filter that it installs on itself.
// Usage: deny SYSCALL:ERRNO[:MINIMUM] ... -- command [arguments]
// MINIMUM applies to the second argument (the length of mmap, mprotect, madvise): shorter calls
// pass.
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
  const char* name;
  int number;
} kCalls[] = {
    {"mmap", __NR_mmap},
    {"mprotect", __NR_mprotect},
    {"mremap", __NR_mremap},
    {"madvise", __NR_madvise},
    {"brk", __NR_brk},
    {"munmap", __NR_munmap},
    {"rseq", __NR_rseq},
    {"membarrier", __NR_membarrier},
    {"clone3", __NR_clone3},
    {"clone", __NR_clone},
    {"prctl", __NR_prctl},
    {"getcpu", __NR_getcpu},
    {"sched_getaffinity", __NR_sched_getaffinity},
    {"close_range", __NR_close_range},
    {"unshare", __NR_unshare},
    {"socket", __NR_socket},
    {"bind", __NR_bind},
    {"memfd_create", __NR_memfd_create},
};

static const struct {
  const char* name;
  int number;
} kErrors[] = {{"ENOMEM", ENOMEM}, {"EPERM", EPERM},   {"ENOSYS", ENOSYS},
               {"EINVAL", EINVAL}, {"EAGAIN", EAGAIN}, {"EACCES", EACCES}};

static struct sock_filter program[256];
static unsigned short length;

static void Emit(unsigned short code, unsigned char jump_true, unsigned char jump_false,
                 uint32_t value) {
  program[length++] = (struct sock_filter){code, jump_true, jump_false, value};
}

static void Usage(const char* what) {
  fprintf(stderr, "deny: bad argument %s\n", what);
  exit(2);
}

static void AddRule(char* rule) {
  char* error_name = strchr(rule, ':');
  if (error_name == NULL) Usage(rule);
  *error_name++ = 0;
  char* minimum = strchr(error_name, ':');
  if (minimum != NULL) *minimum++ = 0;
  int call = -1;
  int error = 0;
  for (size_t i = 0; i < sizeof kCalls / sizeof *kCalls; ++i) {
    if (strcmp(kCalls[i].name, rule) == 0) call = kCalls[i].number;
  }
  for (size_t i = 0; i < sizeof kErrors / sizeof *kErrors; ++i) {
    if (strcmp(kErrors[i].name, error_name) == 0) error = kErrors[i].number;
  }
  if (call < 0 || error == 0) Usage(rule);
  uint32_t deny = SECCOMP_RET_ERRNO | (uint32_t)error;
  Emit(BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
  if (minimum == NULL) {
    Emit(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, (uint32_t)call);
    Emit(BPF_RET | BPF_K, 0, 0, deny);
    return;
  }
  // The argument has two halves: above 4 GiB any low half is too much.
  uint32_t least = (uint32_t)strtoul(minimum, NULL, 10);
  Emit(BPF_JMP | BPF_JEQ | BPF_K, 0, 5, (uint32_t)call);
  Emit(BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, args[1]) + 4);
  Emit(BPF_JMP | BPF_JEQ | BPF_K, 0, 2, 0);
  Emit(BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, args[1]));
  Emit(BPF_JMP | BPF_JGE | BPF_K, 0, 1, least);
  Emit(BPF_RET | BPF_K, 0, 0, deny);
}

int main(int argc, char** argv) {
  int at = 1;
  Emit(BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch));
  Emit(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, AUDIT_ARCH_X86_64);
  Emit(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW);
  for (; at < argc && strcmp(argv[at], "--") != 0; ++at) AddRule(argv[at]);
  Emit(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW);
  if (at + 1 >= argc) Usage("(no command)");

  struct sock_fprog filter = {length, program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    perror("deny: seccomp");
    return 2;
  }
  // The caller passes the preload as DENY_PRELOAD, so that it reaches the command alone.
  const char* preload = getenv("DENY_PRELOAD");
  if (preload != NULL) setenv("LD_PRELOAD", preload, 1);
  unsetenv("DENY_PRELOAD");
  execvp(argv[at + 1], argv + at + 1);
  perror("deny: exec");
  return 2;
}
