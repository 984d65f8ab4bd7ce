// What functions are called: this program's own, libc's, one of nobody's, with and without the
// files on disk, and files that lie.
#include "profile/frame_names.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

extern "C" {
[[gnu::noinline]] int strata_test_named_function(int x) { return x + 1; }
}

namespace strata {
namespace {

[[gnu::noinline]] int OfThisFile(int x) { return x + 2; }

class Names : public FrameNames::Sink {
 public:
  Names() : Sink(Note) {}
  std::map<uintptr_t, std::string> of;

 private:
  static void Note(Sink& self, uintptr_t frame, const char* name, size_t length) {
    auto& names = static_cast<Names&>(self);
    EXPECT_EQ(names.of.count(frame), 0u);
    names.of[frame] = std::string(name == nullptr ? "" : name, length);
  }
};

// One byte behind where it begins, as a return address into it may be.
template <class F>
uintptr_t Inside(F* f) {
  return reinterpret_cast<uintptr_t>(f) + 1;
}

std::map<uintptr_t, std::string> Frames(std::vector<uintptr_t> frames, OpensFiles opens) {
  std::sort(frames.begin(), frames.end());
  FrameNames names;
  Names found;
  EXPECT_TRUE(names.Name(frames.data(), frames.size(), opens, found));
  EXPECT_EQ(found.of.size(), frames.size());
  return found.of;
}

// Without the places.
std::map<uintptr_t, std::string> Named(const std::vector<uintptr_t>& frames, OpensFiles opens) {
  auto found = Frames(frames, opens);
  for (auto& [frame, name] : found) name = name.substr(0, name.find(" <"));
  return found;
}

TEST(FrameNames, AreSymbolsAsTheTableHasThem) {
  const auto names =
      Named({Inside(strata_test_named_function), Inside(OfThisFile)}, OpensFiles::kYes);
  EXPECT_EQ(names.at(Inside(strata_test_named_function)), "strata_test_named_function");
  EXPECT_EQ(names.at(Inside(OfThisFile)), "_ZN6strata12_GLOBAL__N_110OfThisFileEi");
}

TEST(FrameNames, SayThePlaceInTheFileThatIsReturnedTo) {
  const uintptr_t frame = Inside(strata_test_named_function);
  for (const OpensFiles opens : {OpensFiles::kYes, OpensFiles::kNo}) {
    const auto names = Frames({frame, frame + 1}, opens);
    const std::string first = names.at(frame), second = names.at(frame + 1);
    const size_t site = first.find(" <"), place = first.find("+0x", site);
    ASSERT_EQ(place, site + 18) << first;
    EXPECT_EQ(first.back(), '>');
    EXPECT_EQ(first.substr(0, place), second.substr(0, place));
    const auto number = [&](const std::string& name) {
      return std::stoull(name.substr(place + 3), nullptr, 16);
    };
    EXPECT_EQ(number(first) + 1, number(second));
  }
}

TEST(FrameNames, OfAReturnAddressBehindTheLastCallAreTheCallers) {
  // The first byte of a function, as a return address, belongs to the one before.
  const auto names = Named({Inside(strata_test_named_function) - 1}, OpensFiles::kYes);
  EXPECT_NE(names.begin()->second, "strata_test_named_function");
}

TEST(FrameNames, WithoutTheFileAreBuildIdAndPlace) {
  const uintptr_t frame = Inside(strata_test_named_function);
  const std::string name = Named({frame}, OpensFiles::kNo).at(frame);
  const size_t plus = name.find("+0x");
  ASSERT_EQ(plus, 16u) << name;
  EXPECT_EQ(name.find_first_not_of("0123456789abcdef"), plus);
  EXPECT_EQ(name.find_first_not_of("0123456789abcdef", plus + 3), std::string::npos);
  // Where it begins, whatever address inside of it is asked for.
  EXPECT_EQ(Named({frame + 1}, OpensFiles::kNo).at(frame + 1), name);
}

TEST(FrameNames, OfMemoryThatIsNoFileAreNone) {
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  const uintptr_t jit = reinterpret_cast<uintptr_t>(page) + 16;
  const uintptr_t known = Inside(strata_test_named_function);
  const auto names = Named({8, jit, known, ~uintptr_t{0}}, OpensFiles::kYes);
  EXPECT_EQ(names.at(8), "");
  EXPECT_EQ(names.at(jit), "");
  EXPECT_EQ(names.at(~uintptr_t{0}), "");
  EXPECT_EQ(names.at(known), "strata_test_named_function");
  munmap(page, 4096);
}

class Bytes : public MemoryReader {
 public:
  explicit Bytes(const std::string& bytes) : MemoryReader(ReadAt), bytes_(bytes) {}

 private:
  static bool ReadAt(MemoryReader& self, uintptr_t from, void* to, size_t n) {
    const std::string& b = static_cast<Bytes&>(self).bytes_;
    if (from > b.size() || b.size() - from < n) return false;
    memcpy(to, b.data() + from, n);
    return true;
  }
  const std::string& bytes_;
};

std::string OwnFile() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Asks for places all over the file; what comes back is of no matter, but that it does.
void AskAll(const std::string& bytes) {
  Bytes file(bytes);
  ElfSymbols elf;
  if (!elf.Open(file)) return;
  FunctionQuery queries[16];
  for (size_t i = 0; i < 16; ++i) {
    if (!elf.AddressOf(i * 0x4321, &queries[i].address)) queries[i].address = i * 0x4321;
  }
  std::sort(std::begin(queries), std::end(queries),
            [](const FunctionQuery& a, const FunctionQuery& b) { return a.address < b.address; });
  ScratchArray<Elf64_Sym> buffer;
  char name[4096];
  ASSERT_TRUE(elf.FindSymbols(queries, 16, buffer));
  for (const FunctionQuery& q : queries) {
    if (q.name_at != 0) {
      EXPECT_LE(elf.ReadName(q, name, sizeof(name)), sizeof(name));
    }
    uint64_t start = 0;
    if (elf.FunctionStart(q.address, &start)) {
      EXPECT_LE(start, q.address);
    }
  }
}

TEST(ElfSymbols, TruncatedFilesYieldLess) {
  const std::string whole = OwnFile();
  AskAll(whole);
  for (size_t n = 0; n < 200; ++n) AskAll(whole.substr(0, n));
  for (size_t part = 1; part < 16; ++part) AskAll(whole.substr(0, whole.size() * part / 16));
}

TEST(ElfSymbols, FilesThatLieYieldSomething) {
  const std::string whole = OwnFile();
  std::mt19937_64 random(7);
  uint64_t sections;
  memcpy(&sections, whole.data() + offsetof(Elf64_Ehdr, e_shoff), sizeof(sections));
  ASSERT_LT(sections, whole.size());
  for (int round = 0; round < 60; ++round) {
    std::string bytes = whole;
    for (int k = 0; k < 8; ++k) {
      const size_t tail = sections + random() % (whole.size() - sections);
      bytes[random() % 2 != 0 ? random() % 1024 : tail] = static_cast<char>(random());
    }
    AskAll(bytes);
  }
}

}  // namespace
}  // namespace strata
