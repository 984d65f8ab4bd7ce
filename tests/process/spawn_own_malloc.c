// The children of posix_spawn, system and popen share the parent's memory until they run their
// program, as those of vfork do; this program's own malloc shows that they never allocate in it.
#include "../edge/case.h"

#include <spawn.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char** environ;
extern void* __libc_malloc(size_t);
extern void __libc_free(void*);

static long process;
static int calls;

static void ExpectParent(void) {
  ++calls;
  if (process == 0 || syscall(SYS_getpid) == process) return;
  Say("a spawned child allocates\n");
  syscall(SYS_kill, process, 9);
}

void* malloc(size_t size) {
  ExpectParent();
  return __libc_malloc(size);
}

void free(void* block) {
  ExpectParent();
  __libc_free(block);
}

CASE(children_do_not_allocate) {
  char* const arguments[] = {(char*)"sh", (char*)"-c", (char*)"exit 0", NULL};
  process = getpid();
  for (int i = 0; i < 10; ++i) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t all;
    sigfillset(&all);
    CHECK(posix_spawn_file_actions_init(&actions) == 0 && posix_spawnattr_init(&attributes) == 0);
    CHECK(posix_spawn_file_actions_addopen(&actions, 5, "/dev/null", O_RDONLY, 0) == 0);
    CHECK(posix_spawn_file_actions_adddup2(&actions, 5, 6) == 0);
    CHECK(posix_spawn_file_actions_addchdir_np(&actions, "/") == 0);
    CHECK(posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP) ==
          0);
    CHECK(posix_spawnattr_setsigdefault(&attributes, &all) == 0);
    pid_t child = 0;
    int status = 0;
    CHECK(posix_spawnp(&child, "sh", &actions, &attributes, arguments, environ) == 0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(posix_spawnp(&child, "no such program", &actions, NULL, arguments, environ) == ENOENT);
    posix_spawn_file_actions_destroy(&actions);
    CHECK(system("exit 0") == 0);
    FILE* pipe = popen("exit 0", "r");
    CHECK(pipe != NULL && pclose(pipe) == 0);
  }
  CHECK(calls > 0);
}
