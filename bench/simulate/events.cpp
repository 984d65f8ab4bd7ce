// Reads the input, and refuses what would not be a run: see events.h.
#include "events.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace strata::simulate {
namespace {

constexpr uint64_t kMagic = 0x314d4953'41525453;  // "STRASIM1"

struct Header {
  uint64_t magic, items, events;
};

struct Close {
  void operator()(FILE* file) const { fclose(file); }
};
using File = std::unique_ptr<FILE, Close>;

std::string Why(const char* path, const char* why) { return std::string(path) + ": " + why; }

uint64_t Length(FILE* file) {
  if (fseek(file, 0, SEEK_END) != 0) return 0;
  const long end = ftell(file);
  rewind(file);
  return end < 0 ? 0 : static_cast<uint64_t>(end);
}

template <class T>
bool Fill(FILE* file, std::vector<T>* into, uint64_t count) {
  into->resize(count);
  return fread(into->data(), sizeof(T), count, file) == count;
}

// Each item begins once, and ends at most once, after that.
const char* Senseless(const Events& read) {
  enum : uint8_t { kToCome, kThere, kGone };
  std::vector<uint8_t> state(read.sizes.size(), kToCome);
  for (const Event& event : read.events) {
    if (event.item() >= state.size()) return "an event of no item";
    uint8_t& now = state[event.item()];
    if (now != (event.ends() ? kThere : kToCome)) return "an item that begins or ends twice";
    now = event.ends() ? kGone : kThere;
  }
  return nullptr;
}

}  // namespace

std::string Read(const char* events, const char* classes, Events* read) {
  const File file(fopen(events, "rb"));
  if (!file) return Why(events, strerror(errno));
  Header header;
  const uint64_t length = Length(file.get());
  if (fread(&header, sizeof(header), 1, file.get()) != 1 || header.magic != kMagic)
    return Why(events, "not a file of events");
  const uint64_t body = length - sizeof(header);
  if (header.items > body / sizeof(uint64_t) || header.events > body / sizeof(Event) ||
      header.items * sizeof(uint64_t) + header.events * sizeof(Event) != body ||
      !Fill(file.get(), &read->sizes, header.items) ||
      !Fill(file.get(), &read->events, header.events))
    return Why(events, "truncated");
  if (const char* why = Senseless(*read)) return Why(events, why);

  const File second(fopen(classes, "rb"));
  if (!second) return Why(classes, strerror(errno));
  if (Length(second.get()) != header.items || !Fill(second.get(), &read->classes, header.items))
    return Why(classes, "not a class for each item");
  return {};
}

}  // namespace strata::simulate
