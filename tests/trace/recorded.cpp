// A program to be recorded: each mode makes allocations of sizes that nothing else asks for, so
// that test_record.py can tell them in the trace. Exit status 1: something was not as it should be.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kBlocks = 5000;

void Expect(bool ok, const char* what) {
  if (ok) return;
  fprintf(stderr, "%s\n", what);
  _exit(1);
}

std::vector<void*> Allocate(size_t size, int count) {
  std::vector<void*> blocks;
  for (int i = 0; i < count; ++i) {
    errno = EDOM;
    blocks.push_back(malloc(size));
    Expect(blocks.back() != nullptr && errno == EDOM, "malloc changed errno");
  }
  return blocks;
}

void Free(std::vector<void*>& blocks) {
  for (void* p : blocks) {
    errno = EDOM;
    free(p);
    Expect(errno == EDOM, "free changed errno");
  }
  blocks.clear();
}

// Thread t makes blocks of 10000 + t bytes, and thread t + 1 frees them.
void Threads() {
  constexpr int kThreads = 4;
  std::atomic<void*> slots[kThreads] = {};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([t, &slots] {
      for (int made = 0, freed = 0; made < kBlocks || freed < kBlocks;) {
        void* empty = nullptr;
        if (made < kBlocks && slots[t].load() == nullptr) {
          void* p = malloc(static_cast<size_t>(10'000 + t));
          Expect(slots[t].compare_exchange_strong(empty, p), "a slot is one maker's");
          ++made;
        }
        if (freed < kBlocks) {
          if (void* p = slots[(t + kThreads - 1) % kThreads].exchange(nullptr)) {
            free(p);
            ++freed;
          } else {
            sched_yield();
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Frees in the destructors of thread-specific data, the last things that a thread does.
void ShortThreads() {
  pthread_key_t key;
  pthread_key_create(&key, [](void* p) { free(p); });
  for (int i = 0; i < 300; ++i)
    std::thread([key] { pthread_setspecific(key, malloc(10'100)); }).join();
}

void Fork() {
  std::vector<void*> blocks = Allocate(10'200, 5);
  const pid_t child = fork();
  if (child == 0) {
    Free(blocks);  // the parent's: unknown here
    blocks = Allocate(10'201, 7);
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      Allocate(10'202, 3);
      _exit(0);
    }
    int status = 0;
    Expect(waitpid(grandchild, &status, 0) == grandchild && status == 0, "grandchild");
    Free(blocks);
    _exit(0);
  }
  int status = 0;
  Expect(waitpid(child, &status, 0) == child && status == 0, "child");
  Free(blocks);
}

// Forks while other threads allocate: the child's recording must not wait for any of them.
void ForkStorm() {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&stop] {
      while (!stop) free(malloc(static_cast<size_t>(rand()) % 5000));
    });
  }
  for (int i = 0; i < 60; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      std::vector<void*> blocks = Allocate(10'250, 10);
      Free(blocks);
      _exit(0);
    }
    int status = 0;
    Expect(waitpid(child, &status, 0) == child && status == 0, "child");
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

void Vfork() {
  for (int i = 0; i < 10; ++i) {
    const pid_t child = vfork();
    if (child == 0) _exit(7);
    int status = 0;
    Expect(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7, "child");
  }
  std::vector<void*> blocks = Allocate(10'300, kBlocks);
  Free(blocks);
}

void Kill() {
  std::vector<void*> blocks = Allocate(10'400, kBlocks);
  raise(SIGKILL);
}

void Exec(char* self) {
  std::vector<void*> blocks = Allocate(10'500, kBlocks);
  char mode[] = "vfork";
  char* words[] = {self, mode, nullptr};
  execv(self, words);
  Expect(false, "exec");
}

// A daemon closes what it does not know, and the numbers are soon in use again.
void CloseAll(const char* path) {
  std::vector<void*> blocks = Allocate(10'600, kBlocks);
  for (int fd = 3; fd < 2000; ++fd) close(fd);
  std::vector<FILE*> files;
  for (int i = 0; i < 950; ++i) files.push_back(fopen(path, "w"));
  Free(blocks);
  for (FILE* file : files) {
    if (file != nullptr) fclose(file);
  }
}

struct alignas(256) Wide {
  char bytes[10'752];
};

void Api() {
  free(calloc(10, 1070));
  void* p = realloc(nullptr, 10'701);
  p = realloc(p, 10'702);
  Expect(realloc(p, PTRDIFF_MAX) == nullptr, "an impossible realloc");
  p = realloc(p, 10'703);
  free(p);
  Expect(posix_memalign(&p, 4096, 10'704) == 0, "posix_memalign");
  free(p);
  free(aligned_alloc(128, 10'752));
  Wide* volatile wide = new Wide;  // the compiler may leave out a pair that it sees
  delete wide;
  operator delete(operator new(10'705));
  operator delete[](operator new[](10'706, std::nothrow), std::nothrow);
  operator delete(operator new(10'707), size_t{10'707});
  bool threw = false;
  try {
    void* volatile huge = operator new(size_t{PTRDIFF_MAX});
    free(huge);
  } catch (const std::bad_alloc&) {
    threw = true;
  }
  Expect(threw, "operator new threw nothing");
  free(operator new(10'708));
}

// From one of 2^20 places.
[[gnu::noinline]] void* AllocateBelow(int depth, unsigned place) {
  if (depth == 0) return malloc(10'800);
  void* volatile p =
      place % 2 == 0 ? AllocateBelow(depth - 1, place / 2) : AllocateBelow(depth - 1, place / 2);
  return p;
}

// Handlers that interrupted the recorder, as it happens, end children.
void HandlersExit() {
  for (int i = 0; i < 120; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      signal(SIGVTALRM, [](int) { exit(3); });
      const itimerval in{{0, 0}, {0, 2000 + i * 371 % 9000}};
      Expect(setitimer(ITIMER_VIRTUAL, &in, nullptr) == 0, "setitimer");
      for (unsigned n = 0;; ++n) free(AllocateBelow(20, n * 2'654'435'761));
    }
    int status = 0;
    waitpid(child, &status, 0);
    Expect(WIFEXITED(status) && WEXITSTATUS(status) == 3, "a child waited for ever");
  }
}

}  // namespace

int main(int count, char** words) {
  const std::string mode = count > 1 ? words[1] : "";
  if (mode == "threads") Threads();
  if (mode == "short-threads") ShortThreads();
  if (mode == "fork") Fork();
  if (mode == "fork-storm") ForkStorm();
  if (mode == "vfork") Vfork();
  if (mode == "kill") Kill();
  if (mode == "handlers-exit") HandlersExit();
  if (mode == "exec") Exec(words[0]);
  if (mode == "close") CloseAll(words[2]);
  if (mode == "api") Api();
}
