// The server of `make learn`: shops' visits over TCP, a thread a connection. A request makes rows
// that live until its visitor has gone, and now and then something that stays in the visitor's
// session, for long after. Both are of the same sizes and come from the one function of this
// program that calls malloc, so that only the call path tells them apart.
//
// Prints `PORT PID` and serves until its standard input ends. A request is `USER ROWS\n`, the
// answer a number that depends on every row.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <mutex>
#include <thread>

#include "common.h"

namespace {

constexpr uint64_t kUsers = 1 << 16;
constexpr uint64_t kKeepEvery = 100;
constexpr size_t kMostRows = 1 << 20;

struct Node {
  Node* next;
  uint64_t value;
};

[[gnu::noinline]] Node* Make(size_t size, uint64_t value) {
  auto* node = static_cast<Node*>(bench::CheckedMalloc(size));
  memset(node, static_cast<int>(value), size);
  *node = {nullptr, value};
  return node;
}

size_t SizeOf(uint64_t value) { return 96 + 64 * ((value >> 32) % 4); }

[[gnu::noinline]] Node* NewRow(uint64_t value) { return Make(SizeOf(value), value); }

[[gnu::noinline]] Node* NewEntry(uint64_t value, Node* next) {
  Node* entry = Make(SizeOf(value), value);
  entry->next = next;
  return entry;
}

void FreeList(Node* list) {
  while (list != nullptr) {
    Node* next = list->next;
    free(list);
    list = next;
  }
}

// What each user left behind at the latest request. Not in the heap itself: it is no part of what
// is to be shown.
class Sessions {
 public:
  Sessions() : of_user_(kUsers) {}

  void Replace(uint64_t user, Node* entries) {
    {
      const std::lock_guard hold(lock_);
      std::swap(of_user_[user % kUsers], entries);
    }
    FreeList(entries);
  }

 private:
  std::mutex lock_;
  bench::Array<Node*> of_user_;
};

class Visit {
 public:
  explicit Visit(Sessions& sessions) : sessions_(sessions) {}
  ~Visit() { FreeList(first_); }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  uint64_t Serve(uint64_t user, uint64_t rows) {
    bench::Random random(user * 0x9e37 + rows);
    uint64_t sum = 0;
    Node* entries = nullptr;
    for (uint64_t i = 1; i <= rows; ++i) {
      const uint64_t value = random.Next();
      if (i % kKeepEvery == 0) {
        entries = NewEntry(value, entries);
      } else {
        *end_ = NewRow(value);
        end_ = &(*end_)->next;
      }
      sum = sum * 31 + value;
    }
    if (entries != nullptr) sessions_.Replace(user, entries);
    return sum;
  }

 private:
  Sessions& sessions_;
  Node* first_ = nullptr;
  Node** end_ = &first_;  // freed in the order of allocation
};

bool Answer(int socket, Visit& visit, const char* line) {
  char* end = nullptr;
  const uint64_t user = strtoull(line, &end, 10);
  if (end == line || *end != ' ') return false;
  const char* second = end + 1;
  const uint64_t rows = strtoull(second, &end, 10);
  if (end == second || *end != '\0' || rows > kMostRows) return false;
  char reply[32];
  const int n = snprintf(reply, sizeof reply, "%016llx\n",
                         static_cast<unsigned long long>(visit.Serve(user, rows)));
  return send(socket, reply, static_cast<size_t>(n), MSG_NOSIGNAL) == n;
}

// Until the visitor goes, or says what is no request.
void Receive(int socket, Visit& visit) {
  char text[512];
  size_t used = 0;
  while (used < sizeof text) {
    const ssize_t n = recv(socket, text + used, sizeof text - used, 0);
    if (n <= 0) return;
    used += static_cast<size_t>(n);
    char* begin = text;
    while (auto* end =
               static_cast<char*>(memchr(begin, '\n', used - static_cast<size_t>(begin - text)))) {
      *end = '\0';
      if (!Answer(socket, visit, begin)) return;
      begin = end + 1;
    }
    used -= static_cast<size_t>(begin - text);
    memmove(text, begin, used);
  }
}

// All memory of the visit is free before the visitor sees the connection end.
void Serve(int socket, Sessions& sessions) {
  {
    Visit visit(sessions);
    Receive(socket, visit);
  }
  close(socket);
}

int Listen(uint16_t* port) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (listener < 0 || bind(listener, any, length) != 0 || listen(listener, 256) != 0 ||
      getsockname(listener, any, &length) != 0)
    bench::Die("cannot listen on 127.0.0.1");
  *port = ntohs(address.sin_port);
  return listener;
}

}  // namespace

int main() {
  static Sessions sessions;
  uint16_t port = 0;
  const int listener = Listen(&port);
  std::thread([listener] {
    for (;;) {
      const int socket = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (socket >= 0) std::thread(Serve, socket, std::ref(sessions)).detach();
    }
  }).detach();
  printf("%u %d\n", unsigned{port}, static_cast<int>(getpid()));
  fflush(stdout);
  char ignored[256];
  while (read(STDIN_FILENO, ignored, sizeof ignored) > 0) {
  }
  return 0;
}
