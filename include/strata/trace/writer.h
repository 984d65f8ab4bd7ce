// Writes a trace from one thread at a time: numbers the events, dates them, and puts them into the
// file in blocks. For the Trace layer and for tests; the recorder of whole programs (src/trace) has
// a buffer for each thread instead.
#pragma once

#include <sys/mman.h>
#include <time.h>

#include "strata/trace/encode.h"
#include "strata/trace/file.h"

namespace strata::trace {

class Writer {
 public:
  Writer() = default;
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() { Close(); }

  // Truncates what is there. False: errno says why. `path` must stay valid.
  bool Open(const char* path) {
    Close();
    if (buffer_ == nullptr) {
      void* p =
          mmap(nullptr, sizeof(Buffer), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (p == MAP_FAILED) return false;
      buffer_ = static_cast<Buffer*>(p);
    }
    path_ = path;
    error_ = file_.Open(path, O_TRUNC);
    FileHeader header;
    header.pid = static_cast<uint64_t>(pid_ = getpid());
    header.parent = static_cast<uint64_t>(getppid());
    header.start_realtime = Now(CLOCK_REALTIME);
    header.start_monotonic = start_ = Now(CLOCK_MONOTONIC);
    totals_ = Totals();
    sequence_ = 0;
    open_ = error_ == 0;
    Append(EncodeHeader(header, "", 0, buffer_->block, sizeof(buffer_->block)));
    errno = error_;
    return open_;
  }
  bool is_open() const { return open_; }

  // Gives the event its number and time. Returns the number; 0 when nothing is being written.
  uint64_t Add(Event event) {
    if (!open_) return 0;
    event.sequence = ++sequence_;
    const uint64_t now = Now(CLOCK_MONOTONIC);
    event.time = now > start_ ? now - start_ : 0;
    return AddAsIs(event);
  }
  // The caller has numbered and dated it; sequences rise within the file.
  uint64_t AddAsIs(const Event& event) {
    if (!open_) return 0;
    buffer_->events[count_++] = event;
    if (count_ == kEvents) Flush();
    return event.sequence;
  }
  void CountUnknownFree() { ++totals_.unknown_frees; }

  void Flush() {
    if (count_ == 0 || !open_ || IsForkedChild()) return;
    totals_.events += count_;
    Append(EncodeEvents(buffer_->events, count_, buffer_->block, sizeof(buffer_->block)));
    count_ = 0;
  }
  // 0, or the errno of what ended the writing early.
  int Close() {
    if (open_ && !IsForkedChild()) {
      Flush();
      Append(EncodeEnd(totals_, buffer_->block, sizeof(buffer_->block)));
    }
    file_.Close();
    if (buffer_ != nullptr) munmap(buffer_, sizeof(Buffer));
    buffer_ = nullptr;
    open_ = false;
    return error_;
  }

 private:
  // The file is the parent's, and goes on there: a child writes nothing more to it.
  bool IsForkedChild() {
    if (getpid() == pid_) return false;
    open_ = false;
    count_ = 0;
    return true;
  }

  static constexpr size_t kEvents = 2048;
  struct Buffer {
    Event events[kEvents];
    uint8_t block[kBlockOverhead + kEvents * kMostEventBytes];
  };

  static uint64_t Now(clockid_t clock) {
    timespec now;
    clock_gettime(clock, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
  }
  void Append(size_t size) {
    if (!open_) return;
    const int saved = errno;
    error_ = file_.Append(path_, buffer_->block, size);
    open_ = error_ == 0;
    errno = saved;
  }

  Buffer* buffer_ = nullptr;
  const char* path_ = nullptr;
  AppendFile file_;
  Totals totals_;
  uint64_t start_ = 0;
  uint64_t sequence_ = 0;
  size_t count_ = 0;
  int error_ = 0;
  pid_t pid_ = 0;
  bool open_ = false;
};

}  // namespace strata::trace
