// One connection to the control socket: reads a line, answers, closes. Everything is non-blocking
// and bounded: a client that is slow or dies costs a slot for ten seconds without progress, one
// that reads a byte now and then for a minute. Who does not send the key with the request is told
// so and gets nothing. Sits in control; the background thread owns all of it.
//
//   reading --line--> answering --all sent--> closed
//               \--> waiting for the end of a profile's window --> answering
#pragma once

#include <cstddef>
#include <cstdint>

#include "control/request.h"
#include "os/mapped_key.h"

namespace strata {

struct ProfileWindow;

// Whether whoever connected is of a user that has a number here.
enum class User : bool { kKnown, kUnnamed };
// Whether there is room for one more window.
enum class Windows : bool { kTaken, kFree };

class ControlClient {
 public:
  static constexpr uint64_t kPatienceNs = 10'000'000'000;  // without progress
  static constexpr uint64_t kAnswerNs = 60'000'000'000;    // for all of an answer
  static constexpr uint64_t kUnnamedNs = 2'000'000'000;    // for the line, see unproven()

  bool open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  // For the end of a window: it has nothing to do and nothing is served to it.
  bool waiting() const { return state_ == State::kWaiting; }
  // Of a user that has no number here, and has not shown the key yet: anybody.
  bool unproven() const { return user_ == User::kUnnamed && state_ == State::kReading; }
  // What to poll for; a client that hangs up is always noticed.
  short events() const;
  // When Continue must be called even if nothing happens.
  uint64_t deadline_ns() const { return deadline_ns_; }

  // Takes over a connected, non-blocking socket of somebody who may ask with this key.
  void Open(int fd, const MappedKey& key, User user, uint64_t now_ns);
  // Something happened on the socket (`revents`), or the deadline may have passed.
  void Continue(short revents, Windows windows, uint64_t now_ns);
  // Of one that is open or not: hangs up, whatever is under way.
  void Close();

 private:
  enum class State : uint8_t { kReading, kWaiting, kAnswering };

  void Read(Windows windows, uint64_t now_ns);
  void Start(size_t line_length, Windows windows, uint64_t now_ns);
  void BeginWindow(const ControlRequest& request, uint64_t now_ns);
  void EndWindow(uint64_t now_ns);
  void Refuse(const char* message, uint64_t now_ns);
  void SendFile(int file, uint64_t now_ns);
  void Send(uint64_t now_ns);
  void Answer(uint64_t now_ns);
  void Progress(uint64_t now_ns) {
    deadline_ns_ = now_ns + kPatienceNs < end_ns_ ? now_ns + kPatienceNs : end_ns_;
  }

  int fd_ = -1;
  int file_ = -1;  // the answer's body
  State state_ = State::kReading;
  User user_ = User::kKnown;
  const MappedKey* key_ = nullptr;
  uint64_t deadline_ns_ = 0;
  uint64_t end_ns_ = 0;              // the deadline moves with progress, but not beyond
  ProfileWindow* window_ = nullptr;  // while waiting
  size_t used_ = 0;                  // of line_
  size_t head_length_ = 0;
  size_t head_sent_ = 0;
  int64_t body_sent_ = 0;
  size_t body_length_ = 0;
  char line_[kMaxRequestLine + 1];
  char head_[256];
};

}  // namespace strata
