// The gzip writer: what it packs is unpacked by an inflater written apart from it, whatever the
// data; descriptors that are slow, full, interrupted or closed.
#include "profile/gzip.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <random>
#include <string>
#include <thread>

#include "inflate.h"

namespace strata {
namespace {

std::string Packed(const std::string& data) {
  const int fd = memfd_create("gzip_test", MFD_CLOEXEC);
  EXPECT_GE(fd, 0);
  EXPECT_TRUE(WriteGzip(fd, data.data(), data.size()));
  std::string packed(static_cast<size_t>(lseek(fd, 0, SEEK_CUR)), '\0');
  EXPECT_EQ(pread(fd, packed.data(), packed.size(), 0), static_cast<ssize_t>(packed.size()));
  close(fd);
  return packed;
}

std::string Random(size_t size, unsigned letters, unsigned seed) {
  std::mt19937 draw(seed);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(draw() % letters);
  return text;
}

TEST(Gzip, CrcOfTheUsualCheckText) {
  EXPECT_EQ(Crc32("123456789", 9), 0xcbf43926u);
  EXPECT_EQ(Crc32("", 0), 0u);
}

TEST(Gzip, RoundTrips) {
  for (const size_t size : {0, 1, 2, 3, 4, 257, 258, 259, 4095, 4096, 70'000}) {
    for (const unsigned letters : {1, 2, 5, 256}) {
      const std::string data = Random(size, letters, static_cast<unsigned>(size) + letters);
      EXPECT_EQ(test::Inflate(Packed(data)), data) << size << " of " << letters;
    }
  }
}

TEST(Gzip, FindsRepeatsAtEveryDistanceAndLength) {
  const std::string word = Random(300, 256, 1);
  for (size_t distance = 300; distance < 40'000; distance = distance * 5 / 4) {
    const std::string data = word + Random(distance - word.size(), 256, 2) + word;
    const std::string packed = Packed(data);
    EXPECT_EQ(test::Inflate(packed), data) << distance;
    if (distance <= 32'768) {
      // Random bytes cost more than 8 bits each with the fixed code; the repeat costs next to none.
      EXPECT_LT(packed.size(), Packed(data.substr(0, distance)).size() + 12) << distance;
    }
  }
  for (size_t length = 3; length < 300; ++length) {
    const std::string data = word.substr(0, length) + "-" + word.substr(0, length) + "+";
    EXPECT_EQ(test::Inflate(Packed(data)), data) << length;
  }
}

TEST(Gzip, SameBytesForTheSameData) {
  std::string data;
  for (const char c : Random(9000, 6, 9)) data += "some text " + std::to_string(int{c});
  EXPECT_EQ(Packed(data), Packed(data));
  EXPECT_LT(Packed(data).size(), data.size() / 4);
}

TEST(Gzip, AFullDeviceIsTold) {
  const int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  errno = 0;
  EXPECT_FALSE(WriteGzip(fd, "abc", 3));
  EXPECT_EQ(errno, ENOSPC);
  close(fd);
}

TEST(Gzip, AClosedPipeIsTold) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  EXPECT_FALSE(WriteGzip(ends[1], "abc", 3));
  EXPECT_EQ(errno, EPIPE);
  close(ends[1]);
  EXPECT_FALSE(WriteGzip(-1, "abc", 3));
  EXPECT_EQ(errno, EBADF);
}

// Reads a pipe dry, a little at a time.
std::string Drain(int fd) {
  std::string got;
  char part[1500];
  ssize_t n;
  while ((n = read(fd, part, sizeof(part))) != 0) {
    if (n > 0) got.append(part, static_cast<size_t>(n));
  }
  return got;
}

void ExpectWholeThroughPipe(int flags) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, 0), 0);
  ASSERT_EQ(fcntl(ends[1], F_SETFL, flags), 0);
  const std::string data = Random(400'000, 200, 4);
  std::string got;
  std::thread reader([&] { got = Drain(ends[0]); });
  errno = 77;
  EXPECT_TRUE(WriteGzip(ends[1], data.data(), data.size()));
  EXPECT_EQ(errno, 77);  // kept on success, whatever was waited for
  close(ends[1]);
  reader.join();
  close(ends[0]);
  EXPECT_EQ(test::Inflate(got), data);
}

TEST(Gzip, WaitsForADescriptorThatDoesNotBlock) { ExpectWholeThroughPipe(O_NONBLOCK); }

TEST(Gzip, GoesOnAfterSignals) {
  struct sigaction interrupt{};
  interrupt.sa_handler = [](int) {};  // without SA_RESTART: write(2) fails with EINTR
  sigaction(SIGALRM, &interrupt, nullptr);
  const itimerval often{{0, 200}, {0, 200}}, never{};
  setitimer(ITIMER_REAL, &often, nullptr);
  ExpectWholeThroughPipe(0);
  setitimer(ITIMER_REAL, &never, nullptr);
}

}  // namespace
}  // namespace strata
