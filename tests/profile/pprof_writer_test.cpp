// The profile writer alone: which bytes it writes for what, when it touches its descriptor, and
// what happens without memory. What a profile means is tested from Python (test_pprof.py).
#include "profile/pprof_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "inflate.h"
#include "profile/script_frames.h"
#include "proto_fields.h"

namespace strata {
namespace {

using test::All, test::Fields;

constexpr PprofValueType kTypes[] = {{"objects", "count"}, {"space", "bytes"}};
const std::string kMaps =
    "00400000-00401000 r--p 00000000 fd:01 1 /bin/main\n"
    "00401000-00402000 r-xp 00001000 fd:01 1 /bin/main\n"
    "10000000-10001000 r-xp 00000000 00:00 0 \n"
    "20000000-20002000 r-xp 00000000 fd:01 2 /lib/gone.so (deleted)\n"
    "30000000-30001000 r-xp 00000000 fd:01 3 /lib/\xff\xc3\xbc.so\n"
    "40000000-40001000 r-xp 00000000 fd:01 4 /lib/unused.so\n"
    "50000000-50001000 r-xp 00000000 fd:01 4 /lib/\xc3\xbc.so\n";

NoMemory g_no_memory;

PprofHeader Header() {
  PprofHeader header;
  header.time_ns = 1;
  header.mappings = {kMaps.data(), kMaps.size(), &g_no_memory, 0x401500};
  return header;
}

std::string Finished(PprofWriter& writer, int fd) {
  EXPECT_TRUE(writer.Finish());
  std::string packed(static_cast<size_t>(lseek(fd, 0, SEEK_CUR)), '\0');
  EXPECT_EQ(pread(fd, packed.data(), packed.size(), 0), static_cast<ssize_t>(packed.size()));
  return test::Inflate(packed).value_or("not gzip");
}

TEST(PprofWriter, MappingsLocationsStringsOnceEach) {
  const int fd = memfd_create("pprof", MFD_CLOEXEC);
  PprofWriter writer(fd, kTypes, 2, Header());
  const uintptr_t one[] = {0x30000011, 0x10000001, 0x401501}, two[] = {0x20001001, 0x401501};
  const uintptr_t three[] = {0x50000801, 0x60000000, 0x402001};  // the last: just inside
  const int64_t values[] = {1, -1};
  const PprofLabel labels[] = {{"bytes", nullptr, 64, "bytes"}, {"level", "space", 0, nullptr}};
  EXPECT_TRUE(writer.Add(one, 3, values, labels, 2));
  EXPECT_TRUE(writer.Add(two, 2, values, labels, 1));
  EXPECT_TRUE(writer.Add(two, 2, values, nullptr, 0));
  EXPECT_TRUE(writer.Add(three, 3, values, nullptr, 0));
  EXPECT_TRUE(writer.Add(nullptr, 0, values, nullptr, 0));
  EXPECT_EQ(lseek(fd, 0, SEEK_CUR), 0) << "Add wrote to the descriptor";

  const auto profile = Fields(Finished(writer, fd));
  EXPECT_EQ(All(profile, 2).size(), 5u);
  const std::vector<std::string> strings = All(profile, 6);
  EXPECT_EQ(strings, (std::vector<std::string>{"", "objects", "count", "space", "bytes", "level",
                                               "/bin/main", "//anon", "/lib/gone.so",
                                               "deleted or replaced while mapped: /lib/gone.so",
                                               "/lib/???.so", "/lib/\xc3\xbc.so"}));
  std::vector<std::string> mapped;
  for (const std::string& mapping : All(profile, 3)) {
    const auto fields = Fields(mapping);
    mapped.push_back(fields.find(1)->second + " " + strings.at(std::stoul(fields.find(5)->second)));
  }
  EXPECT_EQ(mapped, (std::vector<std::string>{"1 /bin/main", "2 //anon", "3 /lib/gone.so",
                                              "4 /lib/???.so", "5 /lib/\xc3\xbc.so"}));
  std::vector<std::string> places;
  for (const std::string& location : All(profile, 4)) {
    const auto fields = Fields(location);
    places.push_back((fields.contains(2) ? fields.find(2)->second : "none") + "+" +
                     fields.find(3)->second);
  }
  EXPECT_EQ(places, (std::vector<std::string>{
                        "4+" + std::to_string(0x30000010), "2+" + std::to_string(0x10000000),
                        "1+" + std::to_string(0x401500), "3+" + std::to_string(0x20001000),
                        "5+" + std::to_string(0x50000800), "none+" + std::to_string(0x5fffffff),
                        "none+" + std::to_string(0x402000)}));
  EXPECT_EQ(All(profile, 13), std::vector<std::string>{"9"});
  close(fd);
}

TEST(PprofWriter, ManyStacksOfThisProcess) {
  const int fd = memfd_create("pprof", MFD_CLOEXEC);
  PprofWriter writer(fd, kTypes, 2, PprofHeader{});
  const auto here = reinterpret_cast<uintptr_t>(&Finished);
  const auto libc = reinterpret_cast<uintptr_t>(&gnu_get_libc_version);
  const int64_t values[] = {1, 1};
  constexpr size_t kRows = 20'000;
  for (size_t i = 0; i < kRows; ++i) {
    const uintptr_t stack[] = {libc + i % 5 + 1, here + i % 100 + 1, i + 1};
    ASSERT_TRUE(writer.Add(stack, 3, values, nullptr, 0));
  }
  errno = 77;
  const auto profile = Fields(Finished(writer, fd));
  EXPECT_EQ(errno, 77);
  EXPECT_EQ(All(profile, 2).size(), kRows);
  EXPECT_EQ(All(profile, 4).size(), kRows + 105);
  const std::vector<std::string> strings = All(profile, 6);
  bool libc_found = false;
  for (const std::string& mapping : All(profile, 3)) {
    const auto fields = Fields(mapping);
    const std::string& file = strings.at(std::stoul(fields.find(5)->second));
    if (file.find("/libc.so") != std::string::npos)
      libc_found = strings.at(std::stoul(fields.find(6)->second)).size() == 40;
  }
  EXPECT_TRUE(libc_found) << "no libc with a build id";
  close(fd);
}

TEST(PprofWriter, DescriptorsThatFail) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  const struct {
    int fd, error;
  } cases[] = {{ends[1], EPIPE}, {full, ENOSPC}, {-1, EBADF}};
  for (const auto& c : cases) {
    PprofWriter writer(c.fd, kTypes, 2, Header());
    errno = 0;
    EXPECT_FALSE(writer.Finish());
    EXPECT_EQ(errno, c.error);
  }
  close(ends[1]);
  close(full);
}

// A call's frame is looked up one byte before where it returns to; a script's as it is.
TEST(PprofWriter, NamesTheFramesOfScripts) {
  ScriptFrames scripts([](size_t bytes) {
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? nullptr : p;
  });
  PprofHeader header = Header();
  header.scripts = &scripts;
  const int fd = memfd_create("pprof", MFD_CLOEXEC);
  PprofWriter writer(fd, kTypes, 2, header);
  const uintptr_t stack[] = {scripts.Intern({"serve", "shop.py", 7}), 0x401501};
  const int64_t values[] = {1, 1};
  ASSERT_TRUE(writer.Add(stack, 2, values, nullptr, 0));
  const std::vector<std::string> strings = All(Fields(Finished(writer, fd)), 6);
  for (const char* name : {"serve", "shop.py", "/bin/main"})
    EXPECT_EQ(std::count(strings.begin(), strings.end(), name), 1) << name;
  close(fd);
}

#ifndef STRATA_SANITIZED  // sanitizers need address space
// With no address space left, adding fails, and so does the end: no half profile is written.
TEST(PprofWriter, WithoutMemory) {
  const pid_t child = fork();
  if (child == 0) {
    const int fd = memfd_create("pprof", MFD_CLOEXEC);
    PprofWriter writer(fd, kTypes, 2, Header());
    const rlimit limit{0, 0};
    setrlimit(RLIMIT_AS, &limit);
    bool added = true;
    const int64_t values[] = {1, 1};
    for (uintptr_t i = 1; added && i < 100'000; ++i) added = writer.Add(&i, 1, values, nullptr, 0);
    const bool told = !added && !writer.Finish() && errno == ENOMEM;
    _exit(told && lseek(fd, 0, SEEK_CUR) == 0 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}
#endif

}  // namespace
}  // namespace strata
