// Mapped code: lines of /proc/PID/maps good and bad, and build ids of ELF files in fake memory of
// every size, in this process, and where nothing is mapped.
#include "profile/mappings.h"

#include <elf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace strata {
namespace {

std::vector<Mapping> Parse(const std::string& text) {
  MapsParser parser(text.data(), text.size());
  std::vector<Mapping> found;
  for (Mapping m; parser.Next(&m);) found.push_back(m);
  return found;
}

std::string PathOf(const Mapping& m) { return {m.path, m.path_length}; }

TEST(Maps, Fields) {
  const std::string text =
      "55d0c8a00000-55d0c8a21000 r-xp 0001f000 fd:01 1837                       /usr/bin/a b\n"
      "7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n"
      "7fff00000000-7fff00002000 r-xp 00000000 00:00 0                          [vdso]";
  const std::vector<Mapping> all = Parse(text);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].start, 0x55d0c8a00000u);
  EXPECT_EQ(all[0].end, 0x55d0c8a21000u);
  EXPECT_EQ(all[0].file_offset, 0x1f000u);
  EXPECT_EQ(all[0].device, 0xfd00000001u);
  EXPECT_EQ(all[0].inode, 1837u);
  EXPECT_TRUE(all[0].readable && all[0].executable && !all[0].deleted);
  EXPECT_EQ(PathOf(all[0]), "/usr/bin/a b");
  EXPECT_EQ(PathOf(all[1]), "");
  EXPECT_FALSE(all[1].executable);
  EXPECT_EQ(PathOf(all[2]), "[vdso]");
}

TEST(Maps, DeletedFiles) {
  const std::string text =
      "1000-2000 r-xp 00000000 fd:01 5 /lib/x.so (deleted)\n"
      "3000-4000 r-xp 00000000 fd:01 5 (deleted)\n";
  const std::vector<Mapping> all = Parse(text);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_TRUE(all[0].deleted);
  EXPECT_EQ(PathOf(all[0]), "/lib/x.so");
  EXPECT_FALSE(all[1].deleted);  // a file of that name
}

TEST(Maps, PassesOverWhatIsMalformed) {
  const std::string good = "1000-2000 r-xp 00000000 fd:01 5 /x\n";
  for (const char* bad :
       {"", "\n", "-\n", "1000\n", "1000-\n", "1000-2000\n", "1000-2000 r-xp\n",
        "x000-2000 r-xp 0 0:0 0\n", "2000-1000 r-xp 00000000 fd:01 5 /backwards\n",
        "1000-1000 r-xp 00000000 fd:01 5 /empty\n",
        "10000000000000000-20000000000000000 r-xp 0 fd:01 5 /too long\n",
        "1000-2000 r-xp 00000000 fd:01 99999999999999999999999 /inode\n",
        "1000-2000 r-xp 00000000 fd01 5 /device\n", "1000-2000 rx 00000000 fd:01 5 /flags\n",
        "\0\0\0\0\n"}) {
    const std::string text = bad + good;
    const std::vector<Mapping> all = Parse(text);
    ASSERT_EQ(all.size(), 1u) << bad;
    EXPECT_EQ(PathOf(all[0]), "/x") << bad;
  }
}

TEST(Maps, CutAnywhere) {
  const std::string line = "1000-2000 r-xp 00000000 fd:01 5 /x";
  const size_t needed = line.size() - 3;  // a mapping need not have a path
  for (size_t n = 0; n <= line.size(); ++n)
    EXPECT_EQ(Parse(line.substr(0, n)).size(), n >= needed ? 1u : 0u) << n;
}

// ELF images at an address, which end where a mapping of theirs would.
class FakeMemory : public MemoryReader {
 public:
  explicit FakeMemory(std::string image) : MemoryReader(ReadFake), image_(std::move(image)) {}
  Mapping mapping() const {
    Mapping m;
    m.start = kAt;
    m.end = kAt + image_.size();
    return m;
  }
  int outside() const { return outside_; }

 private:
  static constexpr uintptr_t kAt = 0x10000;

  static bool ReadFake(MemoryReader& self, uintptr_t from, void* to, size_t n) {
    auto& fake = static_cast<FakeMemory&>(self);
    const std::string& image = fake.image_;
    if (from < kAt || from - kAt > image.size() || image.size() - (from - kAt) < n) {
      ++fake.outside_;
      return false;
    }
    memcpy(to, image.data() + (from - kAt), n);
    return true;
  }

  std::string image_;
  int outside_ = 0;
};

template <class T>
std::string BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

struct Note {
  Elf64_Word type;
  std::string name, content;
};

std::string Padded(std::string bytes, size_t to) {
  bytes.resize((bytes.size() + to - 1) / to * to);
  return bytes;
}

std::string Image(const std::vector<Note>& notes, size_t align) {
  std::string note_bytes;
  for (const Note& note : notes) {
    const Elf64_Nhdr head{static_cast<Elf64_Word>(note.name.size()),
                          static_cast<Elf64_Word>(note.content.size()), note.type};
    note_bytes += Padded(BytesOf(head) + note.name, align) + Padded(note.content, align);
  }
  Elf64_Ehdr elf{};
  memcpy(elf.e_ident, ELFMAG, SELFMAG);
  elf.e_ident[EI_CLASS] = ELFCLASS64;
  elf.e_phoff = sizeof(elf);
  elf.e_phentsize = sizeof(Elf64_Phdr);
  elf.e_phnum = 2;
  Elf64_Phdr load{}, note{};
  load.p_type = PT_LOAD;
  note.p_type = PT_NOTE;
  note.p_offset = sizeof(elf) + 2 * sizeof(note);
  note.p_filesz = note_bytes.size();
  note.p_align = align;
  return BytesOf(elf) + BytesOf(load) + BytesOf(note) + note_bytes;
}

std::string IdOf(FakeMemory& memory) {
  const BuildId id = ReadBuildId(memory.mapping(), memory);
  return {reinterpret_cast<const char*>(id.bytes), id.size};
}

const std::string kGnu("GNU\0", 4);
const std::string kId = "twenty bytes of hash";

TEST(BuildIds, AreFoundAmongNotes) {
  FakeMemory alone(Image({{NT_GNU_BUILD_ID, kGnu, kId}}, 4));
  EXPECT_EQ(IdOf(alone), kId);
  FakeMemory behind(
      Image({{5, kGnu, "properties"}, {1, "odd", ""}, {NT_GNU_BUILD_ID, kGnu, "8 bytes."}}, 4));
  EXPECT_EQ(IdOf(behind), "8 bytes.");
  FakeMemory wide(Image({{5, kGnu, "property"}, {NT_GNU_BUILD_ID, kGnu, kId}}, 8));
  EXPECT_EQ(IdOf(wide), kId);
}

TEST(BuildIds, OthersAreNone) {
  for (const Note& note : {Note{NT_GNU_BUILD_ID, std::string("Go\0\0", 4), kId}, Note{1, kGnu, kId},
                           Note{NT_GNU_BUILD_ID, kGnu, ""},
                           Note{NT_GNU_BUILD_ID, kGnu, std::string(BuildId::kMaxSize + 1, 'x')}}) {
    FakeMemory memory(Image({note}, 4));
    EXPECT_EQ(IdOf(memory), "");
  }
  FakeMemory text(
      "#!/bin/sh, and much more text than an ELF header would have, for sure: it is long");
  EXPECT_EQ(IdOf(text), "");
  NoMemory nothing;
  EXPECT_EQ(ReadBuildId(text.mapping(), nothing).size, 0u);
}

// Cut at each byte, and with each byte changed: never a look outside of the mapping.
TEST(BuildIds, StayInsideOfTheMapping) {
  const std::string image = Image({{5, kGnu, "properties"}, {NT_GNU_BUILD_ID, kGnu, kId}}, 4);
  for (size_t n = 0; n < image.size(); ++n) {
    FakeMemory cut(image.substr(0, n));
    EXPECT_EQ(IdOf(cut), "") << n;
    EXPECT_EQ(cut.outside(), 0) << n;
    for (const int change : {0x01, 0x80, 0xff}) {
      std::string changed = image;
      changed[n] = static_cast<char>(changed[n] ^ change);
      FakeMemory memory(changed);
      IdOf(memory);
      EXPECT_EQ(memory.outside(), 0) << n << " ^ " << change;
    }
  }
}

TEST(BuildIds, OfThisProcess) {
  std::ifstream file("/proc/self/maps");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  OwnMemory memory;
  bool libc = false, vdso = false;
  for (const Mapping& m : Parse(text)) {
    const std::string path = PathOf(m);
    if (m.file_offset != 0 || path.empty()) continue;
    const size_t size = ReadBuildId(m, memory).size;
    if (path.find("/libc.so") != std::string::npos) libc |= size == 20;
    if (path == "[vdso]") vdso |= size != 0;
  }
  EXPECT_TRUE(libc);
  EXPECT_TRUE(vdso || text.find("[vdso]") == std::string::npos);
}

TEST(OwnMemoryTest, SurvivesWhatIsNotThere) {
  OwnMemory memory;
  const long page = sysconf(_SC_PAGESIZE);
  auto* pages =
      static_cast<char*>(mmap(nullptr, static_cast<size_t>(2 * page), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  munmap(pages + page, static_cast<size_t>(page));
  pages[page - 1] = 'x';
  char got[2] = {};
  const auto end = reinterpret_cast<uintptr_t>(pages + page);
  EXPECT_TRUE(memory.Read(end - 1, got, 1));
  EXPECT_EQ(got[0], 'x');
  EXPECT_FALSE(memory.Read(end - 1, got, 2));
  EXPECT_FALSE(memory.Read(0, got, 1));
  EXPECT_FALSE(memory.Read(~uintptr_t{0}, got, 1));
  munmap(pages, static_cast<size_t>(page));
}

// A file that was made shorter after it was mapped: touching it would raise SIGBUS.
TEST(OwnMemoryTest, SurvivesAFileThatShrank) {
  const int fd = memfd_create("shrinks", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(fd, 8192), 0);
  auto* p = static_cast<char*>(mmap(nullptr, 8192, PROT_READ, MAP_SHARED, fd, 0));
  ASSERT_NE(p, MAP_FAILED);
  ASSERT_EQ(ftruncate(fd, 0), 0);
  OwnMemory memory;
  Mapping m;
  m.start = reinterpret_cast<uintptr_t>(p);
  m.end = m.start + 8192;
  EXPECT_EQ(ReadBuildId(m, memory).size, 0u);
  munmap(p, 8192);
  close(fd);
}

TEST(MarkCodeTest, MarksWhatIsReadFromFilesIfNothingIsCode) {
  std::string maps =
      "4000000000-4000003000 r--p 00000000 fe:00 2 /bin/a\n"
      "4000003000-4000004000 rw-p 00003000 fe:00 2 /bin/a\n"
      "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n";
  MarkCodeIfNoneIs(maps.data(), maps.size());
  EXPECT_NE(maps.find("r-xp 00000000"), std::string::npos);
  EXPECT_NE(maps.find("rw-p 00003000"), std::string::npos);
}

TEST(MarkCodeTest, BelievesALineThatIsCode) {
  const std::string before =
      "1000-2000 r--p 00000000 fe:00 2 /bin/a\n2000-3000 r-xp 00001000 fe:00 2 /bin/a\n";
  std::string maps = before;
  MarkCodeIfNoneIs(maps.data(), maps.size());
  EXPECT_EQ(maps, before);
  MarkCodeIfNoneIs(nullptr, 0);
}

}  // namespace
}  // namespace strata
