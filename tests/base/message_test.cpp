// Message writes one line to stderr in one piece, cuts what is too long, and keeps errno.
#include "base/message.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "base/check.h"

namespace strata {
namespace {

// What f writes to file descriptor 2.
template <class F>
std::string StderrOf(F f) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const int saved = dup(STDERR_FILENO);
  dup2(ends[1], STDERR_FILENO);
  f();
  dup2(saved, STDERR_FILENO);
  close(saved);
  close(ends[1]);
  std::string text;
  char buffer[1024];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof(buffer))) > 0;)
    text.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  return text;
}

TEST(Message, FormatsTextNumbersAndHex) {
  EXPECT_EQ(StderrOf([] {
              Message()
                  .Text("a ")
                  .Number(0)
                  .Text(" ")
                  .Number(~size_t{0})
                  .Text(" ")
                  .Hex(0)
                  .Text(" ")
                  .Hex(~uintptr_t{0})
                  .Text(" ")
                  .Hex(0x1f)
                  .Send();
            }),
            "strata: a 0 18446744073709551615 0x0 0xffffffffffffffff 0x1f\n");
}

TEST(Message, CutsALongLineAndStillEndsIt) {
  const std::string out = StderrOf([] {
    Message m;
    for (int i = 0; i < 300; ++i) m.Text("0123456789");
    m.Number(42).Hex(42).Send();
  });
  EXPECT_EQ(out.size(), 400u);
  EXPECT_EQ(out.substr(0, 18), "strata: 0123456789");
  EXPECT_EQ(out.back(), '\n');
  EXPECT_EQ(out.find('\n'), out.size() - 1);
}

TEST(Message, KeepsErrnoAlsoWhenStderrIsClosed) {
  const int saved = dup(STDERR_FILENO);
  close(STDERR_FILENO);
  errno = 5;
  Message().Text("nobody reads this").Send();
  const int after = errno;
  dup2(saved, STDERR_FILENO);
  close(saved);
  EXPECT_EQ(after, 5);
}

TEST(MessageDeathTest, CrashNamesFileAndLine) {
  EXPECT_EXIT(Crash("what", "file.cpp", 12), testing::KilledBySignal(SIGABRT),
              "^strata: what \\(file.cpp:12\\)");
  EXPECT_DEATH(STRATA_CHECK(1 + 1 == 3), "strata: check failed: 1 \\+ 1 == 3");
  STRATA_CHECK(true);
}

TEST(Message, NoControlCharacterReachesATerminal) {
  EXPECT_EQ(StderrOf([] { Message().Text("a\x1b[31m\n\r\t\x01\x7f \xc3\xbc~").Send(); }),
            "strata: a?[31m????? \xc3\xbc~\n");
}

// A file that the program has open as descriptor 2 only to read is not written to.
TEST(Message, WhatIsNotOpenForWritingIsNoStderr) {
  char name[] = "/tmp/strata-message-XXXXXX";
  close(mkstemp(name));
  const int saved = dup(STDERR_FILENO);
  const int file = open(name, O_RDONLY);
  dup2(file, STDERR_FILENO);
  close(file);
  Message().Text("lost").Send();
  dup2(saved, STDERR_FILENO);
  close(saved);
  struct stat after;
  ASSERT_EQ(stat(name, &after), 0);
  EXPECT_EQ(after.st_size, 0);
  unlink(name);
}

// A daemon closed its streams, and its file got the number: no place for what may be left unsaid.
TEST(Message, WarningsGoToStderrAsItWasOrToAStream) {
  char names[2][32] = {"/tmp/strata-stderr-XXXXXX", "/tmp/strata-data-XXXXXX"};
  const int files[2] = {mkstemp(names[0]), mkstemp(names[1])};
  const auto bytes_of = [](int fd) {
    struct stat now;
    return fstat(fd, &now) == 0 ? now.st_size : -1;
  };
  const int saved = dup(STDERR_FILENO);
  dup2(files[0], STDERR_FILENO);
  NoteStderr();
  errno = 7;
  Message().Text("said").Warn();
  EXPECT_EQ(errno, 7);
  dup2(files[1], STDERR_FILENO);
  Message().Text("not said").Warn();
  EXPECT_EQ(errno, 7);
  EXPECT_EQ(bytes_of(files[1]), 0);
  Message().Text("fatal").Send();
  EXPECT_EQ(bytes_of(files[1]), 14);
  dup2(saved, STDERR_FILENO);
  close(saved);
  EXPECT_EQ(bytes_of(files[0]), 13);
  EXPECT_EQ(StderrOf([] { Message().Text("by a pipe").Warn(); }), "strata: by a pipe\n");
  for (int i = 0; i < 2; ++i) {
    close(files[i]);
    unlink(names[i]);
  }
}

}  // namespace
}  // namespace strata
