// Says memory errors. See error_report.h.
#include "malloc/error_report.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <initializer_list>

#include "base/message.h"
#include "malloc/runtime.h"
#include "os/confinement.h"
#include "os/side_stack.h"
#include "profile/frame_names.h"
#include "profile/mappings.h"
#include "profile/stack_walk.h"
#include "strata/raw_io.h"

namespace strata {
namespace {

constexpr size_t kMostFrames = 3 * BlockEvent::kMostFrames;
constexpr size_t kMostName = 120;

// The names of the frames of one report.
class Names : public FrameNames::Sink {
 public:
  Names() : Sink(Take) {}

  // Without /proc, or under a filter of the program's, there are none.
  void Find(std::initializer_list<const BlockEvent*> events) {
    for (const BlockEvent* e : events) {
      for (size_t i = 0; e != nullptr && i < e->depth; ++i) frames_[used_++] = e->frames[i];
    }
    std::sort(frames_, frames_ + used_);
    used_ = static_cast<size_t>(std::unique(frames_, frames_ + used_) - frames_);
    if (!MayOpenFiles()) return;
    FrameNames namer;
    namer.Name(frames_, used_, OpensFiles::kYes, *this);
    if (!ReadOwnMaps(maps_)) maps_.Clear();
  }
  const char* NameOf(uintptr_t frame) const {
    const uintptr_t* at = std::lower_bound(frames_, frames_ + used_, frame);
    return at == frames_ + used_ || *at != frame ? "" : names_[at - frames_];
  }
  bool FileOf(uintptr_t frame, Mapping& out) const {
    MapsParser parser(maps_.data(), maps_.size());
    while (parser.Next(&out)) {
      if (frame - 1 >= out.start && frame - 1 < out.end) return out.path_length != 0;
    }
    return false;
  }

 private:
  static void Take(FrameNames::Sink& self, uintptr_t frame, const char* name, size_t length) {
    auto& names = static_cast<Names&>(self);
    const uintptr_t* at = std::lower_bound(names.frames_, names.frames_ + names.used_, frame);
    char* to = names.names_[at - names.frames_];
    const void* place = length == 0 ? nullptr : memchr(name, ' ', length);  // " <build id+0x…>"
    if (place != nullptr) length = static_cast<size_t>(static_cast<const char*>(place) - name);
    const size_t n = std::min(length, kMostName - 1);
    if (n != 0) memcpy(to, name, n);
    to[n] = '\0';
  }

  uintptr_t frames_[kMostFrames];
  char names_[kMostFrames][kMostName] = {};
  size_t used_ = 0;
  ScratchArray<char> maps_;
};

struct Words {
  const char* title;
  const char* topic;  // of `strata explain`
};

Words WordsOf(MemoryErrorKind kind) {
  switch (kind) {
    case MemoryErrorKind::kDoubleFree:
      return {"double free", "double-free"};
    case MemoryErrorKind::kInvalidFree:
      return {"invalid free", "invalid-free"};
    case MemoryErrorKind::kUseAfterFree:
      return {"use after free", "use-after-free"};
    case MemoryErrorKind::kOverflow:
      return {"overflow", "overflow"};
    case MemoryErrorKind::kUnderflow:
      break;
  }
  return {"underflow", "underflow"};
}

const char* VerbOf(Noticed noticed) {
  switch (noticed) {
    case Noticed::kRead:
      return "read of ";
    case Noticed::kWrite:
      return "write to ";
    case Noticed::kFree:
      return "free of ";
    case Noticed::kLater:
      break;
  }
  return "found overwritten: ";
}

const char* BytesWord(size_t n) { return n == 1 ? " byte" : " bytes"; }

void SayWhat(const MemoryError& e) {
  Message line;
  line.Text(WordsOf(e.kind).title).Text(": ").Text(VerbOf(e.noticed)).Hex(e.at);
  const bool inside = e.at >= e.block && e.at - e.block < e.size;
  if (e.at == e.block) {
    line.Text(", the start of");
  } else if (inside) {
    line.Text(", ").Number(e.at - e.block).Text(BytesWord(e.at - e.block)).Text(" inside");
  } else if (e.at == e.block + e.size) {
    line.Text(", right behind the end of");
  } else if (e.at >= e.block) {
    const size_t behind = e.at - e.block - e.size;
    line.Text(", ").Number(behind).Text(BytesWord(behind)).Text(" behind the end of");
  } else {
    line.Text(", ")
        .Number(e.block - e.at)
        .Text(BytesWord(e.block - e.at))
        .Text(" before the start of");
  }
  // What was overwritten beside the block is found at its free: it was live until then.
  const bool at_its_free = e.noticed == Noticed::kLater && e.kind != MemoryErrorKind::kUseAfterFree;
  line.Text(e.freed == nullptr || at_its_free ? " a block of " : " a freed block of ")
      .Number(e.size)
      .Text(" bytes at ")
      .Hex(e.block)
      .Send();
}

void SayEvent(const char* what, const BlockEvent* known, const Names& names) {
  if (known == nullptr || known->thread == 0) return;
  const BlockEvent& event = *known;
  Message().Text(what).Text(" by thread ").Number(event.thread).Text(":").Send();
  for (size_t i = 0; i < event.depth; ++i) {
    Message line;
    line.Text("  #").Number(i).Text(" ").Hex(event.frames[i]);
    const char* name = names.NameOf(event.frames[i]);
    Mapping file;
    const bool in_file = names.FileOf(event.frames[i], file);
    // Without a symbol the name is the file's build id, which tells nothing that the file does not.
    const bool tells = strstr(name, "+0x") == nullptr || !in_file || file.deleted;
    if (name[0] != '\0' && tells) line.Text(" ").Text(name);
    if (in_file) {
      char path[200];
      const size_t n = std::min(file.path_length, sizeof(path) - 1);
      memcpy(path, file.path, n);
      path[n] = '\0';
      line.Text(" ").Text(path).Text("+").Hex(event.frames[i] - 1 - file.start + file.file_offset);
    }
    line.Send();
  }
}

const char* PastOf(const MemoryError& e) {
  if (e.noticed == Noticed::kRead) return "read";
  if (e.noticed == Noticed::kWrite) return "written";
  return e.kind == MemoryErrorKind::kDoubleFree ? "freed again" : "passed to free or realloc";
}

void SayAll(const MemoryError& e) {
  Names names;
  names.Find({e.done, e.allocated, e.freed});
  SayWhat(e);
  SayEvent(PastOf(e), e.done, names);
  SayEvent("allocated", e.allocated, names);
  SayEvent("freed", e.freed, names);
  Message()
      .Text("read on: strata explain ")
      .Text(WordsOf(e.kind).topic)
      .Text(", or docs/errors.md")
      .Send();
}

// As libc makes it of the thread's number; no system call. 0: not known.
uint32_t CurrentThread() {
  clockid_t clock = 0;
  return pthread_getcpuclockid(pthread_self(), &clock) == 0 ? static_cast<uint32_t>(~(clock >> 3))
                                                            : 0;
}

std::atomic<size_t> g_errors{0};

}  // namespace

void CountMemoryError() { g_errors.fetch_add(1, std::memory_order_relaxed); }
size_t MemoryErrors() { return g_errors.load(std::memory_order_relaxed); }

void SayMemoryError(const MemoryError& error) {
  CountMemoryError();
  static std::atomic<bool> said{false};
  if (said.exchange(true)) {
    if (TheRuntime().options.on_error == OnError::kIgnore) return;
    // Another thread is at it, and will end the process.
    constexpr timespec kLong{2, 0};
    raw::Nanosleep(&kLong, nullptr);
  }
  OnSideStack([&error] { SayAll(error); });
}

void ReportMemoryError(const MemoryError& error) {
  SayMemoryError(error);
  if (TheRuntime().options.on_error == OnError::kAbort) abort();
}

void SayStack(const char* what, const BlockEvent& event) {
  OnSideStack([&] {
    Names names;
    names.Find({&event});
    SayEvent(what, &event, names);
  });
}

BlockEvent CurrentEvent(const WalkStart* from) {
  BlockEvent event;
  event.thread = CurrentThread();
  const size_t n = WalkStack(event.frames, BlockEvent::kMostFrames, nullptr, from);
  event.depth = static_cast<uint32_t>(n);
  return event;
}

BlockEvent EventAtFault(uintptr_t pc) {
  constexpr size_t kMostOfHandlers = 16;
  constexpr size_t kMost = kMostOfHandlers + BlockEvent::kMostFrames;
  uintptr_t frames[kMost];
  const size_t n = WalkStack(frames, kMost);
  const auto* const end = frames + n;
  const auto* from = std::find(static_cast<const uintptr_t*>(frames), end, pc);
  BlockEvent event;
  event.thread = CurrentThread();
  // As a return address would lie: what names a frame looks at the byte before.
  event.frames[event.depth++] = pc + 1;
  while (from != end && ++from != end && event.depth < BlockEvent::kMostFrames)
    event.frames[event.depth++] = *from;
  return event;
}

}  // namespace strata
