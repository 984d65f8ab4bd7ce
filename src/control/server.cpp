// The control socket. See server.h.
#include "control/server.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "os/user_namespace.h"
#include "profile/text_sink.h"
#include "strata/raw_io.h"

namespace strata {
namespace {

// Where a user namespace has no name for a user, the kernel gives this one: it is nobody in
// particular, and must not pass for a process that runs as nobody, but may be root outside. Only
// where every user has a name is it the one it says.
constexpr uid_t kOverflowUser = 65534;

enum class Peer : uint8_t { kOther, kUnnamed, kMayAsk };

Peer PeerOf(int fd) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return Peer::kOther;
  if (peer.uid == 0) return Peer::kMayAsk;
  if (peer.uid == kOverflowUser && !EveryUserHasAName()) return Peer::kUnnamed;
  return peer.uid == geteuid() ? Peer::kMayAsk : Peer::kOther;
}

void Refuse(int fd) {
  char line[sizeof(kWhoMayAsk) + 16];
  TextSink text(line, sizeof(line));
  const size_t length = text.Text("error ").Text(kWhoMayAsk).Char('\n').Finish();
  raw::Send(fd, line, length, MSG_DONTWAIT | MSG_NOSIGNAL);
}

enum class SocketName : bool { kPlain, kUnguessable };

// Binds to \0strata-control/PID, or to \0strata-control/PID.RANDOM. The zero byte in front makes
// the name abstract: no file is left behind, whatever happens to us.
bool BindTo(int fd, SocketName kind) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  TextSink name(address.sun_path + 1, sizeof(address.sun_path) - 1);
  name.Text("strata-control/").Number(static_cast<uint64_t>(getpid()));
  if (kind == SocketName::kUnguessable) {
    uint64_t random = 0;
    if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random)) return false;
    name.Char('.').Number(random);
  }
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.Finish());
  return bind(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0;
}

}  // namespace

bool ControlServer::Open() {
  wanted_ = true;
  refused_ = "its key";
  if (!key_.made() && !key_.Make()) return false;
  refused_ = "its socket";
  return Listen();
}

bool ControlServer::Listen() {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  // The plain name may be taken: containers that share a network each have a process 1, and anybody
  // may take any name. One that nobody can guess is free.
  const bool bound = BindTo(fd, SocketName::kPlain) ||
                     (errno == EADDRINUSE && BindTo(fd, SocketName::kUnguessable));
  constexpr int kQueue = 16;
  if (!bound || listen(fd, kQueue) != 0) {
    const int why = errno;
    raw::Close(fd);
    errno = why;
    return false;
  }
  listener_ = fd;
  return true;
}

void ControlServer::Close() {
  for (ControlClient& c : clients_) {
    if (c.open()) c.Close();
  }
  if (listener_ >= 0) raw::Close(listener_);
  listener_ = -1;
  wanted_ = resting_ = false;
  key_.Drop();
}

void ControlServer::Retry() {
  resting_ = false;
  if (wanted_ && listener_ < 0) Open();
}

ControlServer::Load ControlServer::CountClients() const {
  Load load;
  for (const ControlClient& c : clients_) {
    if (c.open()) ++(c.waiting() ? load.waiting : load.served);
  }
  return load;
}

size_t ControlServer::FillPoll(pollfd* out) const {
  size_t n = 0;
  for (const ControlClient& c : clients_) {
    if (c.open()) out[n++] = {c.fd(), c.events(), 0};
  }
  const bool room = CountClients().served < kClients;
  if (listener_ >= 0 && room && !resting_) out[n++] = {listener_, POLLIN, 0};
  return n;
}

uint64_t ControlServer::deadline_ns() const {
  uint64_t earliest = UINT64_MAX;
  for (const ControlClient& c : clients_) {
    if (c.open() && c.deadline_ns() < earliest) earliest = c.deadline_ns();
  }
  return earliest;
}

void ControlServer::Handle(const pollfd* entries, size_t n, uint64_t now_ns) {
  bool connection = false;
  for (size_t i = 0; i < n; ++i) {
    if (entries[i].fd == listener_) {
      connection = entries[i].revents != 0;
      continue;
    }
    for (ControlClient& c : clients_) {
      if (c.open() && c.fd() == entries[i].fd) {
        const bool free = CountClients().waiting < kWindows;
        c.Continue(entries[i].revents, free ? Windows::kFree : Windows::kTaken, now_ns);
        break;
      }
    }
  }
  if (connection) Accept(now_ns);
}

// One at a time: the next is found by the next poll.
void ControlServer::Accept(uint64_t now_ns) {
  const int fd = raw::Accept4(listener_, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) {
    // EMFILE and the like would come again at once.
    resting_ = errno != EAGAIN && errno != EINTR && errno != ECONNABORTED;
    return;
  }
  // Others are gone before they have cost anything: whoever can reach the socket could else keep
  // the owner out.
  const Peer peer = PeerOf(fd);
  if (peer == Peer::kOther) {
    Refuse(fd);
    raw::Close(fd);
    return;
  }
  if (peer == Peer::kUnnamed) MakeRoomForUnproven();
  for (ControlClient& c : clients_) {
    if (c.open()) continue;
    return c.Open(fd, key_, peer == Peer::kUnnamed ? User::kUnnamed : User::kKnown, now_ns);
  }
  raw::Close(fd);
}

// The key comes with the first line, at once: those who have been waited for longest go.
void ControlServer::MakeRoomForUnproven() {
  size_t unproven = 0;
  ControlClient* oldest = nullptr;
  for (ControlClient& c : clients_) {
    if (!c.open() || !c.unproven()) continue;
    ++unproven;
    if (oldest == nullptr || c.deadline_ns() < oldest->deadline_ns()) oldest = &c;
  }
  if (unproven >= kUnproven) oldest->Close();
}

}  // namespace strata
