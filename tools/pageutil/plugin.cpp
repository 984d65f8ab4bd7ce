// A plugin for qemu-user that notes which bytes of memory an x86-64 program touches, for `strata
// pageutil`: what it knows lies in a file that both map (layout.h). Page utilization is HADES'
// metric (Banakar et al., "Tidying Up the Address Space", DIMES 2025), there measured with Pin.
// Sits in tools/pageutil; arguments: shared=PATH, epoch=MILLISECONDS, unit=byte|line.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include <pthread.h>

#include "mapping_log.h"
#include "messages.h"
#include "owners.h"
#include "qemu_plugin.h"
#include "shared_file.h"
#include "touched.h"

#define PLUGIN_EXPORT extern "C" __attribute__((visibility("default")))

namespace strata::pageutil {
namespace {

constexpr unsigned kLineShift = 6;
constexpr unsigned kMostFrames = 1024;

// Never destroyed: threads of the program may run until the process is gone.
SharedFile& g_file = *new SharedFile;
Touched<0>& g_bytes = *new Touched<0>(g_file);
Touched<kLineShift>& g_lines = *new Touched<kLineShift>(g_file);
Owners& g_owners = *new Owners(g_file);
MappingLog& g_mappings = *new MappingLog(g_file);
std::mutex& g_epoch_lock = *new std::mutex;
uint64_t g_epoch_ms = 0;
bool g_by_line = false;
bool g_over = false;  // under g_epoch_lock: nobody ends an epoch any more

// In a forked child, whose memory is not the program's.
std::atomic<bool> g_elsewhere{false};
std::atomic<bool> g_started{false};
std::atomic<bool> g_touched{false};
std::atomic<uint64_t> g_own_begin{0}, g_own_end{0};

uint64_t Now(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void EndEpoch() {
  const std::lock_guard hold(g_epoch_lock);
  if (g_over) return;
  Header* const header = g_file.header();
  const uint64_t number = header->epochs.load(std::memory_order_relaxed);
  if (number == kMostEpochs) return;
  const uint64_t end = Now(CLOCK_MONOTONIC);
  if (g_by_line) {
    g_lines.EndEpoch();
  } else {
    g_bytes.EndEpoch();
  }
  g_file.area<Epoch>(kEpochArea)[number] = {end, header->records.load(std::memory_order_relaxed),
                                            header->events.load(std::memory_order_relaxed)};
  header->epochs.store(number + 1, std::memory_order_release);
}

void* EpochThread(void*) {
  const uint64_t start = g_file.header()->start_ns;
  for (uint64_t number = 1;; ++number) {
    const uint64_t at = start + number * g_epoch_ms * 1'000'000;
    const timespec until{static_cast<time_t>(at / 1'000'000'000),
                         static_cast<long>(at % 1'000'000'000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
    }
    EndEpoch();
  }
}

// With all signals blocked: the program's are for its own threads.
bool StartEpochThread() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const int error = pthread_create(&thread, nullptr, EpochThread, nullptr);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error == 0) pthread_detach(thread);
  return error == 0;
}

void OnMemory(unsigned, qemu_plugin_meminfo_t info, uint64_t address, void*) {
  if (g_elsewhere.load(std::memory_order_relaxed)) return;
  const uint64_t size = uint64_t{1} << qemu_plugin_mem_size_shift(info);
  // The first thing that any program touches is its stack.
  if (!g_touched.load(std::memory_order_relaxed) && !g_touched.exchange(true))
    g_file.header()->stack = address;
  if (g_by_line) {
    g_lines.Mark(address, size);
  } else {
    g_bytes.Mark(address, size);
  }
}

bool IsOwnCode(uint64_t address) {
  return address >= g_own_begin.load(std::memory_order_relaxed) &&
         address < g_own_end.load(std::memory_order_relaxed);
}

void OnTranslation(qemu_plugin_id_t, qemu_plugin_tb* block) {
  qemu_plugin_insn* const first = qemu_plugin_tb_get_insn(block, 0);
  const uint64_t address = qemu_plugin_insn_vaddr(first);
  if (!g_started.load(std::memory_order_relaxed) && !g_started.exchange(true)) {
    g_file.header()->guest_base =
        reinterpret_cast<uint64_t>(qemu_plugin_insn_haddr(first)) - address;
    g_mappings.Snapshot();
  }
  if (IsOwnCode(address)) return;
  const size_t count = qemu_plugin_tb_n_insns(block);
  for (size_t i = 0; i < count; ++i)
    qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(block, i), OnMemory,
                                     QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, nullptr);
}

void OnMessage(Message message, const uint64_t* a) {
  switch (message) {
    case Message::kOwnCode:
      g_own_begin.store(a[0], std::memory_order_relaxed);
      g_own_end.store(a[1], std::memory_order_relaxed);
      g_file.header()->told.store(1, std::memory_order_relaxed);
      return;
    case Message::kAllocated:
    case Message::kAllocatedOnce: {
      const auto* const frames =
          reinterpret_cast<const uint64_t*>(a[2] + g_file.header()->guest_base);
      const auto if_known =
          message == Message::kAllocated ? Owners::IfKnown::kReplace : Owners::IfKnown::kKeep;
      return g_owners.Allocated(a[0], a[1], frames, std::min<size_t>(a[3], kMostFrames), if_known);
    }
    case Message::kFreed:
      return g_owners.Freed(a[0]);
  }
}

// A call whose result makes it known what is mapped. One thread of QEMU's is one of the program's.
struct Pending {
  int64_t number = -1;
  uint64_t arguments[6];
};
thread_local Pending t_pending;

void OnCall(qemu_plugin_id_t, unsigned, int64_t number, uint64_t a1, uint64_t a2, uint64_t a3,
            uint64_t a4, uint64_t a5, uint64_t a6, uint64_t, uint64_t) {
  if (g_elsewhere.load(std::memory_order_relaxed)) return;
  if (number == kMessageCall) {
    const uint64_t rest[] = {a2, a3, a4, a5};
    return OnMessage(static_cast<Message>(a1), rest);
  }
  if (MappingLog::Concerns(number)) {
    t_pending = {number, {a1, a2, a3, a4, a5, a6}};
  } else if (number == SYS_execve || number == SYS_execveat) {
    g_file.header()->executes.fetch_add(1, std::memory_order_relaxed);
  }
}

void OnResult(qemu_plugin_id_t, unsigned, int64_t number, int64_t result) {
  if (number != t_pending.number) return;
  t_pending.number = -1;
  if (g_elsewhere.load(std::memory_order_relaxed)) return;
  constexpr int64_t kMostErrors = 4096;
  if (result >= 0 || result < -kMostErrors)
    g_mappings.Called(number, t_pending.arguments, static_cast<uint64_t>(result));
}

// The program ended by itself. What is noted of the epoch that runs stays in the file.
void OnExit(qemu_plugin_id_t, void*) {
  if (g_elsewhere.load(std::memory_order_relaxed)) return;
  const std::lock_guard hold(g_epoch_lock);
  g_over = true;
}

void BeforeFork() { g_file.header()->forks.fetch_add(1, std::memory_order_relaxed); }
void InChild() { g_elsewhere.store(true, std::memory_order_relaxed); }

bool Complain(const char* what) {
  fprintf(stderr, "strata: the plugin for QEMU: %s\n", what);
  return false;
}

bool ReadArguments(int count, char** arguments) {
  const char* path = nullptr;
  for (int i = 0; i < count; ++i) {
    const char* const argument = arguments[i];
    if (strncmp(argument, "shared=", 7) == 0) {
      path = argument + 7;
    } else if (strncmp(argument, "epoch=", 6) == 0) {
      g_epoch_ms = strtoull(argument + 6, nullptr, 10);
    } else if (strcmp(argument, "unit=line") == 0) {
      g_by_line = true;
    } else if (strcmp(argument, "unit=byte") != 0) {
      return Complain("an argument that it does not know");
    }
  }
  if (path == nullptr || g_epoch_ms == 0) return Complain("no shared=PATH or epoch=MILLISECONDS");
  if (!g_file.Open(path, g_by_line ? kLineShift : 0)) return Complain(strerror(errno));
  return true;
}

}  // namespace
}  // namespace strata::pageutil

PLUGIN_EXPORT int qemu_plugin_version;
int qemu_plugin_version = 1;

PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t*, int argc,
                                      char** argv) {
  using namespace strata::pageutil;
  if (!ReadArguments(argc, argv)) return 1;
  Header* const header = g_file.header();
  header->start_ns = Now(CLOCK_MONOTONIC);
  header->start_unix_ns = Now(CLOCK_REALTIME);
  if (pthread_atfork(BeforeFork, nullptr, InChild) != 0 || !StartEpochThread()) {
    Complain("no thread could be started");
    return 1;
  }
  qemu_plugin_register_vcpu_tb_trans_cb(id, OnTranslation);
  qemu_plugin_register_vcpu_syscall_cb(id, OnCall);
  qemu_plugin_register_vcpu_syscall_ret_cb(id, OnResult);
  qemu_plugin_register_atexit_cb(id, OnExit, nullptr);
  header->magic = kMagic;
  return 0;
}
