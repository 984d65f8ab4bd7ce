// CrestDB's text protocol on a store that is a std::map: what is answered, also where lines and
// values arrive in pieces and where they are no commands.
#include "protocol.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <string_view>

namespace crest {
namespace {

class MapStore : public Store {
 public:
  bool Get(std::string_view key, std::string& value) override {
    const auto at = map.find(std::string(key));
    if (at != map.end()) value = at->second;
    return at != map.end();
  }
  bool Put(std::string_view key, std::string_view value) override {
    if (full) return false;
    map[std::string(key)] = value;
    return true;
  }
  bool Remove(std::string_view key) override { return map.erase(std::string(key)) != 0; }
  size_t Scan(std::string_view, size_t, std::string&) override { return 0; }
  bool ordered() const override { return true; }
  ValueView Locate(std::string_view) override { return {}; }
  void ForEachPlace(const std::function<void(std::string_view, const void*)>&) override {}
  strata::hot_domain* domain() override { return nullptr; }

  std::map<std::string, std::string> map;
  bool full = false;
};

struct Talk {
  MapStore store;
  Conversation conversation{store};
  bool goes_on = true;

  std::string Say(std::string_view text) {
    std::string out;
    goes_on = conversation.Take(text, out);
    return out;
  }
};

TEST(Protocol, SetsGetsAndDeletes) {
  Talk t;
  EXPECT_EQ(t.Say("get a\r\n"), "END\r\n");
  EXPECT_EQ(t.Say("set a 5\r\nhello\r\n"), "STORED\r\n");
  EXPECT_EQ(t.Say("get a\r\n"), "VALUE a 5\r\nhello\r\nEND\r\n");
  EXPECT_EQ(t.Say("set a 7 0 2\r\nhi\r\n"), "STORED\r\n");  // memcached's form
  EXPECT_EQ(t.Say("get a\n"), "VALUE a 2\r\nhi\r\nEND\r\n");
  EXPECT_EQ(t.Say("delete a\r\n"), "DELETED\r\n");
  EXPECT_EQ(t.Say("delete a\r\n"), "NOT_FOUND\r\n");
  EXPECT_EQ(t.Say("stats\r\n"), "END\r\n");
  EXPECT_TRUE(t.goes_on);
  EXPECT_EQ(t.Say("quit\r\nget a\r\n"), "");
  EXPECT_FALSE(t.goes_on);
}

TEST(Protocol, ValuesAreBytesNotLines) {
  Talk t;
  const std::string value("\r\nget a\r\n\0\n", 11);
  EXPECT_EQ(t.Say("set a 11\r\n" + value + "\r\nset b 0\r\n\r\n"), "STORED\r\nSTORED\r\n");
  EXPECT_EQ(t.store.map["a"], value);
  EXPECT_EQ(t.store.map["b"], "");
}

TEST(Protocol, NoCommandGetsAnErrorAndTheConnectionGoesOn) {
  Talk t;
  for (const std::string line : {"", "  ", "fetch a", "get", "get a b", "delete", "delete a b",
                                 "stats now", "GET a", "setx a 1", "set", "set a", "set a 1 2"}) {
    EXPECT_EQ(t.Say(line + "\r\n"), "ERROR\r\n") << line;
    EXPECT_TRUE(t.goes_on);
  }
  for (const std::string line : {"set a x", "set a -1", "set a 1x", "set a 0 0 ."})
    EXPECT_EQ(t.Say(line + "\r\n"), "CLIENT_ERROR that is no number of bytes\r\n") << line;
  const std::string long_key(256, 'k');
  EXPECT_EQ(t.Say("get " + long_key + "\r\n"), "ERROR\r\n");
  EXPECT_EQ(t.Say("set a 1\r\nx\r\n"), "STORED\r\n");
}

TEST(Protocol, BytesThatCannotBeStoredAreSkipped) {
  Talk t;
  const std::string long_key(256, 'k');
  constexpr const char* kTooLong = "CLIENT_ERROR the key or the value is too long\r\n";
  EXPECT_EQ(t.Say("set " + long_key + " 7\r\nget abc\r\nget a\r\n"),
            kTooLong + std::string("END\r\n"));
  const size_t size = kLargestValue + 1;
  EXPECT_EQ(t.Say("set a " + std::to_string(size) + "\r\n"), kTooLong);
  EXPECT_EQ(t.Say(std::string(size, 'v')), "");
  EXPECT_EQ(t.Say("\r\nget a\r\n"), "END\r\n");
  t.store.full = true;
  EXPECT_EQ(t.Say("set a 1\r\nx\r\n"), "SERVER_ERROR there is no memory left\r\n");
  EXPECT_TRUE(t.goes_on);
}

// Where the other side's next command begins can't be known any more.
TEST(Protocol, LeavesWhoCannotBeFollowed) {
  for (const std::string text :
       {"set a 16777217\r\n", "set a 99999999999999999999\r\n", "set a 1\r\nxyz\r\n"}) {
    Talk t;
    EXPECT_EQ(t.Say(text).substr(0, 13), "CLIENT_ERROR ") << text;
    EXPECT_FALSE(t.goes_on) << text;
    EXPECT_TRUE(t.store.map.empty());
  }
  Talk t;
  EXPECT_EQ(t.Say(std::string(1024, 'x')), "");
  EXPECT_EQ(t.Say("x"), "CLIENT_ERROR the line is too long\r\n");
  EXPECT_FALSE(t.goes_on);
}

// Few bytes may ask for many: the rest waits until the answers are sent.
TEST(Protocol, StopsWhenTheAnswersBecomeMany) {
  Talk t;
  t.store.map["a"] = std::string(kLargestValue, 'v');
  std::string said;
  for (int i = 0; i < 20; ++i) said += "get a\r\n";
  size_t answered = t.Say(said).size();
  EXPECT_TRUE(t.conversation.stopped());
  EXPECT_LT(answered, 6 * kLargestValue);
  while (t.conversation.stopped()) answered += t.Say("").size();
  EXPECT_EQ(answered, 20 * (kLargestValue + std::string("VALUE a 1048576\r\n\r\nEND\r\n").size()));
}

// However it is cut, the same is answered.
TEST(Protocol, PiecesOfAnySize) {
  std::mt19937 random(5);
  std::string said;
  for (int i = 0; i < 400; ++i) {
    const std::string key = "k" + std::to_string(random() % 20);
    const std::string value(random() % 100, static_cast<char>(random() % 256));
    switch (random() % 4) {
      case 0:
        said += "get " + key + "\r\n";
        break;
      case 1:
        said += "delete " + key + "\n";
        break;
      case 2:
        said += "nothing of ours\r\n";
        break;
      default:
        said += "set " + key + " " + std::to_string(value.size()) + "\r\n" + value + "\r\n";
    }
  }
  Talk whole;
  const std::string expected = whole.Say(said);
  for (const size_t most : {1, 2, 7, 60, 1000}) {
    Talk t;
    std::string answers;
    for (size_t at = 0; at < said.size();) {
      const size_t size = std::min<size_t>(said.size() - at, 1 + random() % most);
      answers += t.Say(std::string_view(said).substr(at, size));
      at += size;
    }
    EXPECT_EQ(answers, expected);
    EXPECT_EQ(t.store.map, whole.store.map);
  }
}

}  // namespace
}  // namespace crest
