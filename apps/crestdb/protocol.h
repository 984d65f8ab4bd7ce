// The text protocol, without sockets: bytes in, answers out. Lines end with CR LF or LF.
//   get KEY             VALUE KEY BYTES, the bytes, END; or END alone
//   set KEY BYTES       then the bytes: STORED, or SERVER_ERROR. Memcached's form with flags and
//                       expiry before BYTES is taken, and both are ignored
//   delete KEY          DELETED or NOT_FOUND
//   stats               STAT NAME VALUE lines, END
//   quit                ends the connection
// What is none of these gets ERROR, and the connection goes on.
#pragma once

#include <string>
#include <string_view>

#include "store.h"

namespace crest {

class Conversation {
 public:
  explicit Conversation(Store& store) : store_(store) {}

  // Takes what has arrived and adds the answers to `out`. False: the other side is to be left.
  bool Take(std::string_view arrived, std::string& out);
  // Whether it stopped with commands left because the answers had become many: Take({}) goes on.
  bool stopped() const { return stopped_; }

 private:
  static constexpr size_t kLongestLine = 1024;
  static constexpr size_t kMostAnswers = 4 << 20;

  bool Line(std::string_view line, std::string& out);
  bool Set(std::string_view arguments, std::string& out);
  void Stats(std::string& out);

  Store& store_;
  std::string waiting_;  // what is not complete yet
  std::string key_;      // of a set whose bytes are on their way
  size_t bytes_ = 0;
  bool in_set_ = false;
  bool drops_ = false;  // those bytes
  bool stopped_ = false;
  std::string value_;
};

}  // namespace crest
