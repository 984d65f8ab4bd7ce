// /proc/PID/status as the background thread reads it, and which calls each kind of confinement
// leaves. The state is the process's: the tests put it back.
#include "os/confinement.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace strata {
namespace {

TEST(ProcessStatusTest, ReadsTheLinesOfInterest) {
  ProcessStatus s;
  for (const char* line :
       {"Name:\tUid: 7 7 7 7", "State:\tZ (zombie)", "Uid:\t1\t2\t3\t4", "Gid:\t5\t6\t7\t8",
        "VmLck:\t      96 kB", "Threads:\t12", "CapInh:\t00000000000000ff",
        "CapPrm:\t000001ffffffffff", "NoNewPrivs:\t1", "Seccomp:\t2", "Seccomp_filters:\t3"}) {
    ParseStatusLine(line, s);
  }
  EXPECT_TRUE(s.readable);
  EXPECT_EQ(s.state, 'Z');
  EXPECT_EQ(s.users[0], 1u);
  EXPECT_EQ(s.users[3], 4u);
  EXPECT_EQ(s.groups[1], 6u);
  EXPECT_EQ(s.locked_kib, 96u);
  EXPECT_EQ(s.threads, 12u);
  EXPECT_EQ(s.capabilities, 0x1ffffffffffu);
  EXPECT_TRUE(s.no_new_privs);
  EXPECT_EQ(s.seccomp, 2u);
}

// The list of groups may be longer than any buffer; what follows it counts all the same.
TEST(ProcessStatusTest, ALongLineHidesNothing) {
  const std::string path = ::testing::TempDir() + "status" + std::to_string(getpid());
  std::ofstream file(path);
  file << "State:\tS (sleeping)\nGroups:\t";
  for (int i = 0; i < 5000; ++i) file << i << ' ';
  file << "\nThreads:\t3\nSeccomp:\t1\n";
  file.close();
  const ProcessStatus s = ReadProcessStatus(path.c_str());
  unlink(path.c_str());
  EXPECT_TRUE(s.readable);
  EXPECT_EQ(s.threads, 3u);
  EXPECT_EQ(s.seccomp, 1u);
}

TEST(ProcessStatusTest, WithoutTheFileNothingIsKnown) {
  EXPECT_FALSE(ReadProcessStatus("/nonexistent/status").readable);
  EXPECT_EQ(ReadProcessStatus("/proc/self/status").users[0], getuid());
}

TEST(ConfinementTest, EachKindLeavesFewerCalls) {
  EXPECT_EQ(CurrentConfinement(), Confinement::kInherited);  // as long as nobody has looked
  FindInheritedConfinement();
  ASSERT_EQ(CurrentConfinement(), Confinement::kNone);
  EXPECT_TRUE(MayOpenFiles() && MayAdvise() && MayCallAnything() && MaySetSignalMask());
  NoteOwnConfinement(Confinement::kNoNewPrivs);
  EXPECT_TRUE(MayWriteFiles());
  EXPECT_FALSE(HasNoFilter()) << "one may have been set unseen, as by a program with the archive";
  NoteFiltersAreSeen();
  EXPECT_TRUE(HasNoFilter());
  NoteOwnConfinement(Confinement::kOwnFilter);
  NoteOwnConfinement(Confinement::kNoNewPrivs);  // no step back
  EXPECT_FALSE(MayWriteFiles() || HasNoFilter());
  EXPECT_FALSE(MayOpenFiles() || MayAdvise() || MayCallAnything() || MaySetSignalMask());
  TrustInheritedFilter();  // says nothing of the program's own
  EXPECT_FALSE(MayCallAnything());
  UndoOwnConfinement(Confinement::kInherited);
  EXPECT_TRUE(MayOpenFiles() && MayAdvise());
  EXPECT_FALSE(MayCallAnything() || HasNoFilter());
  TrustInheritedFilter();
  EXPECT_TRUE(MayCallAnything() && HasNoFilter());
}

}  // namespace
}  // namespace strata
