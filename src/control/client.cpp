// One client of the control socket. See client.h.
#include "control/client.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/answer.h"
#include "os/memory_file.h"
#include "profile/text_sink.h"
#include "report/profile_api.h"
#include "strata/raw_io.h"

namespace strata {
namespace {

bool WouldBlock() { return errno == EAGAIN || errno == EINTR; }

constexpr char kKeyWord[] = "key ";
constexpr size_t kKeyWordLength = sizeof(kKeyWord) - 1;

// How much of the line the right key takes, with the word before it; 0 if it is not there.
size_t KeyLength(const char* line, size_t length, const MappedKey& key) {
  constexpr size_t kLength = kKeyWordLength + MappedKey::kLength;
  if (length < kLength || memcmp(line, kKeyWord, kKeyWordLength) != 0) return 0;
  if (length > kLength && line[kLength] != ' ') return 0;
  return key.Matches(line + kKeyWordLength, MappedKey::kLength) ? kLength : 0;
}

}  // namespace

short ControlClient::events() const {
  switch (state_) {
    case State::kReading:
      return POLLIN;
    case State::kWaiting:
      return 0;
    case State::kAnswering:
      return POLLOUT;
  }
  return 0;
}

void ControlClient::Open(int fd, const MappedKey& key, User user, uint64_t now_ns) {
  fd_ = fd;
  key_ = &key;
  user_ = user;
  state_ = State::kReading;
  used_ = head_length_ = head_sent_ = body_length_ = 0;
  body_sent_ = 0;
  end_ns_ = deadline_ns_ = now_ns + (user == User::kUnnamed ? kUnnamedNs : kPatienceNs);
}

void ControlClient::Continue(short revents, Windows windows, uint64_t now_ns) {
  if ((revents & (POLLERR | POLLNVAL)) != 0) return Close();
  if (state_ == State::kWaiting) {
    if ((revents & POLLHUP) != 0) return Close();
    if (now_ns >= deadline_ns_) EndWindow(now_ns);
    return;
  }
  // A client may send its line and hang up for good; there is nobody to answer then.
  if ((revents & POLLHUP) != 0 && (revents & POLLIN) == 0) return Close();
  if (now_ns >= deadline_ns_) return Close();
  if (revents == 0) return;
  if (state_ == State::kReading) {
    Read(windows, now_ns);
  } else {
    Send(now_ns);
  }
}

void ControlClient::Read(Windows windows, uint64_t now_ns) {
  const ssize_t n = raw::Recv(fd_, line_ + used_, sizeof(line_) - used_, MSG_DONTWAIT);
  if (n < 0 && WouldBlock()) return;
  if (n <= 0) return Close();
  used_ += static_cast<size_t>(n);
  const auto* end = static_cast<const char*>(memchr(line_, '\n', used_));
  if (end != nullptr) {
    size_t length = static_cast<size_t>(end - line_);
    if (length != 0 && line_[length - 1] == '\r') --length;  // typed into a terminal tool
    return Start(length, windows, now_ns);
  }
  // No Progress: a client that sends a byte a second has ten seconds for its line like any other.
  if (used_ == sizeof(line_)) Refuse("the request is longer than 1024 bytes", now_ns);
}

void ControlClient::Start(size_t line_length, Windows windows, uint64_t now_ns) {
  const size_t skip = KeyLength(line_, line_length, *key_);
  if (skip == 0) return Refuse(kWhoMayAsk, now_ns);
  ControlRequest request;
  const char* wrong = ParseRequest(line_ + skip, line_length - skip, request);
  // A forked child has a copy of this.
  explicit_bzero(line_, sizeof(line_));
  if (wrong != nullptr) return Refuse(wrong, now_ns);
  if (request.verb == ControlVerb::kProfile && request.seconds != 0) {
    if (windows == Windows::kTaken)
      return Refuse("as many profiles over some seconds as there may be are open", now_ns);
    return BeginWindow(request, now_ns);
  }
  const int file = OpenMemoryFile();
  if (file < 0) return Refuse("no memory for the answer", now_ns);
  if (const char* error = WriteAnswer(request, file)) {
    raw::Close(file);
    return Refuse(error, now_ns);
  }
  SendFile(file, now_ns);
}

void ControlClient::BeginWindow(const ControlRequest& request, uint64_t now_ns) {
  window_ = BeginProfileWindow(request.name);
  if (window_ == nullptr) return Refuse(ExplainProfileError(errno), now_ns);
  state_ = State::kWaiting;
  deadline_ns_ = now_ns + uint64_t{request.seconds} * 1'000'000'000;
}

void ControlClient::EndWindow(uint64_t now_ns) {
  const int file = OpenMemoryFile();
  if (file < 0) return Refuse("no memory for the answer", now_ns);
  ProfileWindow* window = window_;
  window_ = nullptr;
  if (const int error = EndProfileWindow(window, file)) {
    raw::Close(file);
    return Refuse(ExplainProfileError(error), now_ns);
  }
  SendFile(file, now_ns);
}

void ControlClient::Refuse(const char* message, uint64_t now_ns) {
  TextSink head(head_, sizeof(head_));
  head_length_ = head.Text("error ").Text(message).Char('\n').Finish();
  if (head_length_ >= sizeof(head_)) head_length_ = sizeof(head_) - 1;
  Answer(now_ns);
}

void ControlClient::SendFile(int file, uint64_t now_ns) {
  file_ = file;
  body_length_ = MemoryFileLength(file);
  TextSink head(head_, sizeof(head_));
  head_length_ = head.Text("ok ").Number(body_length_).Char('\n').Finish();
  Answer(now_ns);
}

void ControlClient::Answer(uint64_t now_ns) {
  state_ = State::kAnswering;
  end_ns_ = now_ns + kAnswerNs;
  Progress(now_ns);
  Send(now_ns);
}

void ControlClient::Send(uint64_t now_ns) {
  while (head_sent_ < head_length_) {
    const ssize_t n =
        raw::Send(fd_, head_ + head_sent_, head_length_ - head_sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && WouldBlock()) return;
    if (n <= 0) return Close();
    head_sent_ += static_cast<size_t>(n);
    Progress(now_ns);
  }
  // All signals are blocked in this thread, so that a reader that is gone makes no SIGPIPE.
  while (body_sent_ < static_cast<int64_t>(body_length_)) {
    const ssize_t n =
        sendfile(fd_, file_, &body_sent_, body_length_ - static_cast<size_t>(body_sent_));
    if (n < 0 && WouldBlock()) return;
    if (n <= 0) return Close();
    Progress(now_ns);
  }
  Close();
}

void ControlClient::Close() {
  // Input that is left unread would make the kernel cut the answer off with a reset.
  for (int i = 0; i < 64 && raw::Recv(fd_, line_, sizeof(line_), MSG_DONTWAIT) > 0; ++i) {
  }
  if (window_ != nullptr) DropProfileWindow(window_);
  window_ = nullptr;
  if (file_ >= 0) raw::Close(file_);
  if (fd_ >= 0) raw::Close(fd_);
  fd_ = file_ = -1;
  explicit_bzero(line_, sizeof(line_));
}

}  // namespace strata
