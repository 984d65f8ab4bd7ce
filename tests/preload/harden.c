// Runs a program as a systemd service with filters would start: no new privileges, and for each
// option named the calls that systemd then refuses.
//   harden eperm|kill OPTION... -- PROGRAM ARGUMENTS
// eperm is what SystemCallErrorNumber=EPERM does, kill what a service gets without it.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kMost = 256, kNamespaces = 0x7E020080 };

static struct sock_filter g_code[kMost];
static unsigned short g_used;

static void Fail(const char* what) {
  perror(what);
  exit(125);
}

static void Add(struct sock_filter line) {
  if (g_used == kMost) Fail("too long a filter");
  g_code[g_used++] = line;
}

static void Begin(void) {
  g_used = 0;
  Add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)));
  Add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0));
  Add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
}

// `verdict` for a call with any, or with all, of `bits` in one argument; bits 0: in any case.
static void Refuse(int call, int argument, unsigned bits, int all, unsigned verdict) {
  const unsigned load = BPF_LD | BPF_W | BPF_ABS;
  const unsigned skip = bits == 0 ? 1 : all ? 4 : 3;
  Add((struct sock_filter)BPF_STMT(load, offsetof(struct seccomp_data, nr)));
  Add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, skip));
  if (bits != 0) {
    const unsigned at = offsetof(struct seccomp_data, args) + 8 * (unsigned)argument;
    Add((struct sock_filter)BPF_STMT(load, at));
    if (all) Add((struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, bits));
    Add((struct sock_filter)BPF_JUMP(BPF_JMP | (all ? BPF_JEQ : BPF_JSET) | BPF_K, bits, 0, 1));
  }
  Add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict));
}

static void Install(void) {
  Add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const struct sock_fprog program = {g_used, g_code};
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) Fail("seccomp");
}

static void RefuseAll(const int* calls, size_t n, unsigned verdict) {
  for (size_t i = 0; i < n; ++i) Refuse(calls[i], 0, 0, 0, verdict);
}

// SystemCallFilter=@system-service: what is outside of it, as far as a program without a driver,
// a debugger or a clock of its own can name it.
static const int kNoService[] = {
    SYS_ptrace,
    SYS_perf_event_open,
    SYS_pidfd_getfd,
    SYS_bpf,
    SYS_init_module,
    SYS_finit_module,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_clock_adjtime,
    SYS_iopl,
    SYS_ioperm,
    SYS_syslog,
    SYS_acct,
    SYS_quotactl,
    SYS_open_by_handle_at,
    SYS_kexec_load,
    SYS_fanotify_init,
    SYS_vhangup,
    SYS_setdomainname,
    SYS_sethostname,
    SYS_fsopen,
    SYS_move_mount,
    SYS_modify_ldt,
    SYS_uselib,
    SYS_mincore,
};
// SystemCallFilter=~@privileged ~@resources.
static const int kPrivileged[] = {
    SYS_capset,   SYS_chown,    SYS_fchown,   SYS_lchown,    SYS_fchownat,  SYS_setuid,
    SYS_setgid,   SYS_setreuid, SYS_setregid, SYS_setresuid, SYS_setresgid, SYS_setgroups,
    SYS_setfsuid, SYS_setfsgid, SYS_keyctl,   SYS_add_key,
};
static const int kResources[] = {
    SYS_ioprio_set,    SYS_mbind,          SYS_migrate_pages,      SYS_move_pages,
    SYS_sched_setattr, SYS_sched_setparam, SYS_sched_setscheduler, SYS_sched_setaffinity,
    SYS_set_mempolicy, SYS_setpriority,    SYS_setrlimit,
};
// What systemd has in further groups and a malloc might use on the side.
static const int kAside[] = {
    SYS_membarrier,      SYS_process_vm_readv,
    SYS_process_madvise, SYS_userfaultfd,
    SYS_memfd_create,    SYS_mlock,
    SYS_mlockall,        SYS_kcmp,
    SYS_io_uring_setup,
};
#define ALL(list) list, sizeof(list) / sizeof(list[0])

static void Option(const char* name, unsigned verdict) {
  Begin();
  if (strcmp(name, "SystemCallFilter") == 0) {
    RefuseAll(ALL(kNoService), verdict);
  } else if (strcmp(name, "WithoutPrivileged") == 0) {
    RefuseAll(ALL(kPrivileged), verdict);
    RefuseAll(ALL(kResources), verdict);
  } else if (strcmp(name, "WithoutAside") == 0) {
    RefuseAll(ALL(kAside), verdict);
  } else if (strcmp(name, "MemoryDenyWriteExecute") == 0) {
    Refuse(SYS_mmap, 2, PROT_WRITE | PROT_EXEC, 1, SECCOMP_RET_ERRNO | EPERM);
    Refuse(SYS_mprotect, 2, PROT_EXEC, 0, SECCOMP_RET_ERRNO | EPERM);
    Refuse(SYS_pkey_mprotect, 2, PROT_EXEC, 0, SECCOMP_RET_ERRNO | EPERM);
  } else if (strcmp(name, "RestrictNamespaces") == 0) {
    Refuse(SYS_clone, 0, kNamespaces, 0, SECCOMP_RET_ERRNO | EPERM);
    Refuse(SYS_clone3, 0, 0, 0, SECCOMP_RET_ERRNO | ENOSYS);
    Refuse(SYS_unshare, 0, kNamespaces, 0, SECCOMP_RET_ERRNO | EPERM);
    Refuse(SYS_setns, 0, 0, 0, SECCOMP_RET_ERRNO | EPERM);
  } else if (strcmp(name, "RestrictAddressFamilies") == 0) {
    Refuse(SYS_socket, 0, 0, 0, SECCOMP_RET_ERRNO | EAFNOSUPPORT);
  } else if (strcmp(name, "RestrictRealtime") == 0) {
    Refuse(SYS_sched_setscheduler, 1, SCHED_FIFO | SCHED_RR, 0, SECCOMP_RET_ERRNO | EPERM);
  } else if (strcmp(name, "LockPersonality") == 0) {
    Refuse(SYS_personality, 0, 0, 0, SECCOMP_RET_ERRNO | EPERM);
  } else if (strcmp(name, "NoNewPrivileges") != 0) {
    errno = EINVAL;
    Fail(name);
  }
  Install();
}

int main(int argc, char** argv) {
  if (argc < 4) Fail("usage");
  const unsigned verdict =
      strcmp(argv[1], "kill") == 0 ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) Fail("no new privileges");
  int at = 2;
  for (; at < argc && strcmp(argv[at], "--") != 0; ++at) Option(argv[at], verdict);
  if (at + 1 >= argc) Fail("usage");
  execv(argv[at + 1], &argv[at + 1]);
  Fail(argv[at + 1]);
}
