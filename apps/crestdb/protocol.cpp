// Takes the protocol's bytes apart as they come in, in pieces of any length.
#include "protocol.h"

#include <charconv>
#include <vector>

namespace crest {
namespace {

std::vector<std::string_view> Words(std::string_view line) {
  std::vector<std::string_view> words;
  for (size_t at = 0; at < line.size();) {
    const size_t from = line.find_first_not_of(' ', at);
    if (from == std::string_view::npos) break;
    const size_t to = std::min(line.find(' ', from), line.size());
    words.push_back(line.substr(from, to - from));
    at = to;
  }
  return words;
}

// A value that can't be stored is read and dropped up to this size.
constexpr size_t kMostSkipped = 16 * kLargestValue;

bool IsKey(std::string_view key) { return !key.empty() && key.size() <= kLongestKey; }

void AddStat(std::string& out, std::string_view name, uint64_t value) {
  out.append("STAT ").append(name).append(" ").append(std::to_string(value)).append("\r\n");
}

}  // namespace

bool Conversation::Take(std::string_view arrived, std::string& out) {
  waiting_.append(arrived);
  size_t at = 0;
  bool goes_on = true;
  stopped_ = false;
  while (goes_on && !(stopped_ = out.size() >= kMostAnswers)) {
    const std::string_view rest = std::string_view(waiting_).substr(at);
    if (in_set_) {
      if (rest.size() < bytes_ + 1) break;
      const size_t end = rest[bytes_] == '\r' ? 2 : 1;
      if (rest.size() < bytes_ + end) break;
      if (rest[bytes_ + end - 1] != '\n') {
        out.append("CLIENT_ERROR the bytes do not end with a line\r\n");
        goes_on = false;
        break;
      }
      if (!drops_) {
        const bool stored = store_.Put(key_, rest.substr(0, bytes_));
        out.append(stored ? "STORED\r\n" : "SERVER_ERROR there is no memory left\r\n");
      }
      in_set_ = false;
      at += bytes_ + end;
      continue;
    }
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos) {
      if (rest.size() <= kLongestLine) break;
      out.append("CLIENT_ERROR the line is too long\r\n");
      goes_on = false;
      break;
    }
    std::string_view line = rest.substr(0, end);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    goes_on = Line(line, out);
    at += end + 1;
  }
  waiting_.erase(0, at);
  return goes_on;
}

bool Conversation::Line(std::string_view line, std::string& out) {
  const std::vector<std::string_view> words = Words(line);
  const std::string_view command = words.empty() ? "" : words[0];
  if (command == "quit") return false;
  if (command == "get" && words.size() == 2 && IsKey(words[1])) {
    if (store_.Get(words[1], value_)) {
      out.append("VALUE ").append(words[1]).append(" ").append(std::to_string(value_.size()));
      out.append("\r\n").append(value_).append("\r\n");
    }
    out.append("END\r\n");
  } else if (command == "set") {
    return Set(line.substr(3), out);
  } else if (command == "delete" && words.size() == 2 && IsKey(words[1])) {
    out.append(store_.Remove(words[1]) ? "DELETED\r\n" : "NOT_FOUND\r\n");
  } else if (command == "stats" && words.size() == 1) {
    Stats(out);
  } else {
    out.append("ERROR\r\n");
  }
  return true;
}

// False: nobody can know where the next command begins.
bool Conversation::Set(std::string_view arguments, std::string& out) {
  const std::vector<std::string_view> words = Words(arguments);
  if (words.size() != 2 && words.size() != 4) {
    out.append("ERROR\r\n");
    return true;
  }
  const std::string_view count = words.back();
  const auto [end, error] = std::from_chars(count.data(), count.data() + count.size(), bytes_);
  const bool number = end == count.data() + count.size() && error != std::errc::invalid_argument;
  if (!number) {
    out.append("CLIENT_ERROR that is no number of bytes\r\n");
    return true;
  }
  if (error != std::errc{} || bytes_ > kMostSkipped) {
    out.append("CLIENT_ERROR the value is too long\r\n");
    return false;
  }
  // The bytes come all the same.
  in_set_ = true;
  drops_ = !IsKey(words[0]) || bytes_ > kLargestValue;
  if (drops_) out.append("CLIENT_ERROR the key or the value is too long\r\n");
  key_.assign(words[0]);
  return true;
}

void Conversation::Stats(std::string& out) {
  if (strata::hot_domain* domain = store_.domain()) {
    const strata_hot_stats_t s = domain->stats();
    AddStat(out, "new_bytes", s.heap[0].bytes);
    AddStat(out, "hot_bytes", s.heap[1].bytes);
    AddStat(out, "cold_bytes", s.heap[2].bytes);
    AddStat(out, "moves", s.moves);
    AddStat(out, "cold_after_windows", s.cold_after);
    AddStat(out, "promotions_per_million_used_bytes",
            static_cast<uint64_t>(s.promotion_rate * 1e6));
  }
  out.append("END\r\n");
}

}  // namespace crest
