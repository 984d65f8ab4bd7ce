// The control socket of a running process: an abstract unix socket named after its pid. Who may
// read the process's list of mappings finds there the key that each request needs; the user that
// connects only decides who is not even listened to. Lives in the background thread, in that
// thread's own descriptor table. Sits in control.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>

#include "control/client.h"
#include "os/mapped_key.h"

namespace strata {

class ControlServer {
 public:
  static constexpr size_t kClients = 4;  // served at a time; more wait in the socket's queue
  // Clients that only wait for the end of a profile's window, besides those; more are refused.
  static constexpr size_t kWindows = 8;
  static constexpr size_t kPollSlots = kClients + kWindows + 1;
  // Of kClients: those of which nothing is known yet, see ControlClient::unproven. The newest stay.
  static constexpr size_t kUnproven = 2;

  ControlServer() = default;
  ~ControlServer() { Close(); }
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  // False if the kernel refuses: errno says why, refused() what, and no socket was left open.
  bool Open();
  const char* refused() const { return refused_; }
  // Hangs up on everybody and forgets the key. Open may follow.
  void Close();

  // Fills at most kPollSlots entries; returns how many.
  size_t FillPoll(pollfd* out) const;
  // The earliest moment at which Handle has to run whatever happens; UINT64_MAX: none.
  uint64_t deadline_ns() const;
  // After poll: the entries that FillPoll made, with their revents.
  void Handle(const pollfd* entries, size_t n, uint64_t now_ns);
  // At each tick: a listener that could not accept rests until this is called, and one that could
  // not be made is tried again.
  void Retry();

 private:
  struct Load {
    size_t served = 0;
    size_t waiting = 0;
  };

  bool Listen();
  void Accept(uint64_t now_ns);
  void MakeRoomForUnproven();
  Load CountClients() const;

  int listener_ = -1;
  MappedKey key_;
  const char* refused_ = "";
  bool wanted_ = false;  // Open was called
  bool resting_ = false;
  // One is always free for a connection: it is accepted only while fewer than kClients are served.
  ControlClient clients_[kClients + kWindows];
};

}  // namespace strata
