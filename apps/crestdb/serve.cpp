// Each thread has a listening socket of its own on the same port, and its connections. See serve.h.
#include "serve.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "protocol.h"
#include "store.h"

namespace crest {
namespace {

constexpr size_t kChunk = 64 << 10;

[[noreturn]] void Fail(const std::string& what) {
  throw std::runtime_error(what + ": " + strerror(errno));
}

// A descriptor that is closed with its owner.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

// Listening, or an error. `shared`: other sockets of ours may listen on the same port.
Descriptor Listen(uint16_t* port, bool shared) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(*port);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (socket.get() < 0 || setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      (shared && setsockopt(socket.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0) ||
      bind(socket.get(), generic, size) != 0 || listen(socket.get(), 1024) != 0 ||
      getsockname(socket.get(), generic, &size) != 0)
    Fail("port " + std::to_string(*port));
  *port = ntohs(address.sin_port);
  return socket;
}

void AllowManyConnections() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

class Worker {
 public:
  Worker(Store& store, Descriptor listening, int stop)
      : store_(store),
        listening_(std::move(listening)),
        stop_(stop),
        poll_(epoll_create1(EPOLL_CLOEXEC)) {
    if (poll_.get() < 0) Fail("epoll");
    Watch(listening_.get(), EPOLLIN, EPOLL_CTL_ADD);
    Watch(stop_, EPOLLIN, EPOLL_CTL_ADD);
  }

  void Run() {
    epoll_event events[64];
    for (;;) {
      const int n = epoll_wait(poll_.get(), events, 64, -1);
      for (int i = 0; i < n; ++i) {
        const int fd = events[i].data.fd;
        if (fd == stop_) return;
        if (fd == listening_.get()) {
          Accept();
        } else if (!Serve(fd, events[i].events)) {
          clients_.erase(fd);
          if (full_) Watch(listening_.get(), EPOLLIN, EPOLL_CTL_MOD);
          full_ = false;
        }
      }
    }
  }

 private:
  struct Client {
    Client(int socket, Store& store) : fd(socket), conversation(store) {}
    Descriptor fd;
    Conversation conversation;
    std::string unsent;
    bool ends = false;
  };

  void Watch(int fd, uint32_t events, int how) {
    epoll_event e{};
    e.events = events;
    e.data.fd = fd;
    epoll_ctl(poll_.get(), how, fd, &e);
  }

  void Accept() {
    for (;;) {
      const int fd = accept4(listening_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
      if (fd < 0) {
        // No descriptor is left: those who wait are taken when a connection ends.
        full_ = errno != EAGAIN && !clients_.empty();
        if (full_) Watch(listening_.get(), 0, EPOLL_CTL_MOD);
        return;
      }
      const int on = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      clients_.emplace(fd, std::make_unique<Client>(fd, store_));
      Watch(fd, EPOLLIN, EPOLL_CTL_ADD);
    }
  }

  // False: the connection is over.
  bool Serve(int fd, uint32_t events) {
    const auto at = clients_.find(fd);
    if (at == clients_.end()) return false;
    Client& c = *at->second;
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && !c.ends && c.unsent.empty()) {
      const ssize_t n = recv(fd, chunk_.data(), chunk_.size(), 0);
      if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return false;
      if (n > 0) c.ends = !c.conversation.Take({chunk_.data(), static_cast<size_t>(n)}, c.unsent);
    }
    for (;;) {
      if (!Send(c)) return false;
      if (!c.unsent.empty() || c.ends || !c.conversation.stopped()) break;
      c.ends = !c.conversation.Take({}, c.unsent);
    }
    if (c.ends && c.unsent.empty()) return false;
    // Who does not take his answers is not listened to.
    Watch(fd, c.unsent.empty() ? uint32_t{EPOLLIN} : uint32_t{EPOLLOUT}, EPOLL_CTL_MOD);
    return true;
  }

  // What the other side takes of the answers. False: it is gone.
  static bool Send(Client& c) {
    size_t sent = 0;
    bool room = true;
    while (room && sent < c.unsent.size()) {
      const ssize_t n =
          send(c.fd.get(), c.unsent.data() + sent, c.unsent.size() - sent, MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno != EAGAIN) return false;
      room = n >= 0;
      sent += room ? static_cast<size_t>(n) : 0;
    }
    c.unsent.erase(0, sent);
    return true;
  }

  Store& store_;
  Descriptor listening_;
  int stop_;
  Descriptor poll_;
  bool full_ = false;  // new connections wait
  std::vector<char> chunk_ = std::vector<char>(kChunk);
  std::unordered_map<int, std::unique_ptr<Client>> clients_;
};

}  // namespace

int RunServer(Options& o) {
  const std::string name = o.Text("structure", "harris-table");
  const StructureName* structure = FindStructure(name);
  if (structure == nullptr)
    throw UsageError("there is no structure '" + name + "'; `crestdb structures` lists them");
  auto port = static_cast<uint16_t>(o.Number("port", 11222, 0, 65535));
  const uint64_t threads = o.Number("threads", 2, 1, 256);
  StoreOptions store_options;
  store_options.tidy = o.OnOff("tidy", true);
  store_options.expected_keys = o.Number("keys", 1 << 20, 1, 100'000'000);
  o.ExpectNoMore();

  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);

  AllowManyConnections();
  // Sockets that share a port also share it with another server's: that one must not be there.
  Listen(&port, false);
  const std::unique_ptr<Store> store = structure->make(store_options);
  const Descriptor stop(eventfd(0, EFD_CLOEXEC));
  std::vector<std::unique_ptr<Worker>> workers;
  for (uint64_t i = 0; i < threads; ++i)
    workers.push_back(std::make_unique<Worker>(*store, Listen(&port, true), stop.get()));
  std::vector<std::thread> running;
  for (auto& w : workers) running.emplace_back([&w] { w->Run(); });
  printf("listening on 127.0.0.1:%u\n", port);
  fflush(stdout);

  int signal = 0;
  sigwait(&ends, &signal);
  const uint64_t one = 1;
  if (write(stop.get(), &one, sizeof one) != sizeof one) Fail("stop");
  for (std::thread& t : running) t.join();
  return 0;
}

}  // namespace crest
