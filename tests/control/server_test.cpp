// The control socket's patience, with a clock that is a number: who says nothing, drips or does not
// read loses its slot in time, who makes progress keeps it, and profile windows end when they
// should. Real sockets; what would be answered is made up here, since the library is not linked.
#include "control/server.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "control/answer.h"
#include "report/profile_api.h"

namespace strata {

struct ProfileWindow {};

namespace {
constexpr uint64_t kSecond = 1'000'000'000;
size_t g_answer_size = 3;
int g_windows_open = 0;
ProfileWindow g_window;

bool WriteBody(int fd, size_t size) {
  const std::string body(size, 'a');
  return write(fd, body.data(), size) == static_cast<ssize_t>(size);
}
}  // namespace

const char* WriteAnswer(const ControlRequest&, int fd) {
  return WriteBody(fd, g_answer_size) ? nullptr : "no memory";
}
const char* ExplainProfileError(int) { return "no profile"; }
ProfileWindow* BeginProfileWindow(const char*) {
  ++g_windows_open;
  return &g_window;
}
int EndProfileWindow(ProfileWindow*, int fd) {
  --g_windows_open;
  return WriteBody(fd, 7) ? 0 : EIO;
}
void DropProfileWindow(ProfileWindow*) { --g_windows_open; }

namespace {

// The key as others find it, in the list of mappings; empty if there is none.
std::string Key() {
  constexpr char kPrefix[] = "/memfd:strata-key:";
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t at = line.find(kPrefix);
    if (at != std::string::npos) return line.substr(at + sizeof(kPrefix) - 1, 32);
  }
  return "";
}

class Peer {
 public:
  Peer() : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string name = "strata-control/" + std::to_string(getpid());
    name.copy(address.sun_path + 1, name.size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&address), size), 0);
  }
  ~Peer() { HangUp(); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  void Say(const std::string& text) {
    EXPECT_EQ(send(fd_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  void Ask(const std::string& request) { Say("key " + Key() + " " + request); }
  // What is there, at most `most` bytes.
  std::string Read(size_t most = SIZE_MAX) {
    std::string all;
    char part[4096];
    while (all.size() < most) {
      const ssize_t n = recv(fd_, part, std::min(sizeof(part), most - all.size()), 0);
      ended_ = n == 0;
      if (n <= 0) break;
      all.append(part, static_cast<size_t>(n));
    }
    return all;
  }
  bool ended() {
    Read();
    return ended_;
  }
  void HangUp() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
  bool ended_ = false;
};

class ControlServerTest : public ::testing::Test {
 protected:
  ControlServerTest() {
    g_answer_size = 3;
    g_windows_open = 0;
    EXPECT_TRUE(server_.Open());
  }
  // As the thread's loop does, until nothing happens any more at this time.
  void RunAt(uint64_t now) {
    for (int i = 0; i < 20; ++i) {
      pollfd entries[ControlServer::kPollSlots];
      const size_t n = server_.FillPoll(entries);
      ASSERT_GE(poll(entries, n, 0), 0);
      server_.Handle(entries, n, now);
    }
  }

 protected:
  ControlServer server_;
};

TEST_F(ControlServerTest, SilentClientsLoseTheirSlotsAfterTenSeconds) {
  std::vector<Peer> silent(ControlServer::kClients);
  RunAt(kSecond);
  Peer asking;
  asking.Ask("version\n");
  RunAt(2 * kSecond);
  EXPECT_EQ(asking.Read(), "") << "there is no slot for it yet";
  EXPECT_EQ(server_.deadline_ns(), 11 * kSecond);
  RunAt(11 * kSecond - 1);
  for (Peer& peer : silent) EXPECT_FALSE(peer.ended());
  EXPECT_EQ(asking.Read(), "");
  RunAt(11 * kSecond);
  for (Peer& peer : silent) EXPECT_TRUE(peer.ended());
  EXPECT_EQ(asking.Read(), "ok 3\naaa");
  EXPECT_EQ(server_.deadline_ns(), UINT64_MAX);
}

TEST_F(ControlServerTest, ALineThatDripsGetsNoMoreTime) {
  Peer peer;
  for (uint64_t second = 0; second < 10; ++second) {
    RunAt(second * kSecond);
    EXPECT_FALSE(peer.ended()) << second;
    peer.Say("x");
  }
  RunAt(10 * kSecond);
  EXPECT_TRUE(peer.ended());
}

TEST_F(ControlServerTest, WhoReadsOnKeepsTheSlotAndWhoStopsLosesIt) {
  g_answer_size = 8 << 20;  // more than any socket buffer takes
  Peer peer;
  peer.Ask("stats json\n");
  RunAt(0);
  for (uint64_t second = 9; second <= 36; second += 9) {
    EXPECT_NE(peer.Read(), "");
    RunAt(second * kSecond);
    EXPECT_EQ(server_.deadline_ns(), (second + 10) * kSecond);
  }
  RunAt(46 * kSecond);
  EXPECT_TRUE(peer.ended());
}

TEST_F(ControlServerTest, AWindowEndsAtItsTimeAndNotByPatience) {
  Peer peer;
  peer.Ask("profile heap 30\n");
  RunAt(kSecond);
  EXPECT_EQ(g_windows_open, 1);
  RunAt(31 * kSecond - 1);
  EXPECT_EQ(peer.Read(), "");
  RunAt(31 * kSecond);
  EXPECT_EQ(peer.Read(), "ok 7\naaaaaaa");
  EXPECT_EQ(g_windows_open, 0);
}

TEST_F(ControlServerTest, AWindowOfAClientThatLeavesIsDropped) {
  Peer peer;
  peer.Ask("profile heap 3600\n");
  RunAt(0);
  EXPECT_EQ(g_windows_open, 1);
  peer.HangUp();
  RunAt(kSecond);
  EXPECT_EQ(g_windows_open, 0);
  EXPECT_EQ(server_.deadline_ns(), UINT64_MAX);
}

// ---- the key

constexpr char kRefused[] = "error only the user of this process, or root, may ask";

TEST_F(ControlServerTest, WithoutTheKeyNothingIsAnswered) {
  const std::string key = Key();
  ASSERT_EQ(key.size(), 32u);
  std::string other = key;
  other[31] = other[31] == '0' ? '1' : '0';
  const std::vector<std::string> wrong = {"version\n",
                                          "key\n",
                                          "key \n",
                                          "key " + other + " version\n",
                                          "key " + key.substr(0, 31) + " version\n",
                                          "key " + key + "0 version\n",
                                          "key  " + key + " version\n",
                                          "version key " + key + "\n"};
  for (const std::string& line : wrong) {
    Peer peer;
    peer.Say(line);
    RunAt(0);
    EXPECT_EQ(peer.Read().rfind(kRefused, 0), 0u) << line;
    EXPECT_TRUE(peer.ended()) << line;
  }
  Peer peer;
  peer.Say("key " + key + " version\n");
  RunAt(0);
  EXPECT_EQ(peer.Read(), "ok 3\naaa");
}

TEST_F(ControlServerTest, AWindowNeedsTheKeyToo) {
  Peer peer;
  peer.Say("profile heap 30\n");
  RunAt(0);
  EXPECT_EQ(g_windows_open, 0);
  EXPECT_EQ(peer.Read().rfind(kRefused, 0), 0u);
}

TEST_F(ControlServerTest, CloseLeavesNothingAndOpenDrawsAnotherKey) {
  const std::string before = Key();
  Peer waiting;
  waiting.Ask("profile heap 3600\n");
  Peer silent;
  RunAt(0);
  EXPECT_EQ(g_windows_open, 1);
  server_.Close();
  EXPECT_EQ(g_windows_open, 0);
  EXPECT_TRUE(waiting.ended());
  EXPECT_TRUE(silent.ended());
  EXPECT_EQ(Key(), "");
  server_.Retry();
  EXPECT_EQ(Key(), "") << "closed stays closed";
  ASSERT_TRUE(server_.Open());
  EXPECT_EQ(Key().size(), 32u);
  EXPECT_NE(Key(), before);
  Peer peer;
  peer.Ask("version\n");
  RunAt(0);
  EXPECT_EQ(peer.Read(), "ok 3\naaa");
}

TEST_F(ControlServerTest, AChildHasNoKey) {
  const pid_t child = fork();
  if (child == 0) _exit(Key().empty() ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace strata
