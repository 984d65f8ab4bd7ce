// Following the path of an output file. See path_kind.h.
#include "os/path_kind.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "strata/raw_io.h"

namespace strata {
namespace {

constexpr int kMostLinks = 40;  // as the kernel
constexpr size_t kMostPath = 4400;

// Where a user other than ours or root can put an entry, it may lead anywhere.
bool OfOurs(const struct stat& entry) { return entry.st_uid == 0 || entry.st_uid == geteuid(); }

// The length of the path up to its last name; 0: there is no slash.
size_t DirectoryLength(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash == nullptr ? 0 : static_cast<size_t>(slash - path) + 1;
}

// The directory of the path, which is shorter than kMostPath.
class Directory {
 public:
  explicit Directory(const char* path) {
    const size_t length = DirectoryLength(path);
    memcpy(name_, path, length);
    memcpy(name_ + length, ".", 2);
  }
  bool AnyoneMayAdd() const {
    struct stat found;
    return stat(name_, &found) != 0 || (found.st_mode & S_IWOTH) != 0;
  }
  bool InProc() const {
    struct statfs system;
    return statfs(name_, &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
  }

 private:
  char name_[kMostPath];
};

// Puts what the link says in the place of the link's name. 0 or an errno.
int StepThrough(int link, char* path, size_t capacity) {
  char target[kMostPath];
  const ssize_t n = readlinkat(link, "", target, sizeof(target) - 1);
  if (n <= 0) return n < 0 ? errno : ENOENT;
  const size_t kept = target[0] == '/' ? 0 : DirectoryLength(path);
  if (kept + static_cast<size_t>(n) >= capacity) return ENAMETOOLONG;
  memcpy(path + kept, target, static_cast<size_t>(n));
  path[kept + static_cast<size_t>(n)] = '\0';
  return 0;
}

// One name of the way: says what is there, or steps through a link and says that there is more.
int Look(char* path, size_t capacity, PathKind& kind, bool& done) {
  const int fd = raw::Open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  done = true;
  kind = PathKind::kFile;
  if (fd < 0) {
    if (errno != ENOENT) return errno;
    if (Directory(path).InProc()) kind = PathKind::kDescriptor;  // one that the program closed
    return 0;
  }
  struct stat found;
  struct statfs system;
  int error = 0;
  if (fstat(fd, &found) != 0) {
    error = errno;
  } else if (S_ISLNK(found.st_mode)) {
    if (fstatfs(fd, &system) == 0 && system.f_type == PROC_SUPER_MAGIC) {
      kind = PathKind::kDescriptor;
    } else if (OfOurs(found)) {
      error = StepThrough(fd, path, capacity);
      done = error != 0;
    }
  } else if (S_ISDIR(found.st_mode)) {
    error = EISDIR;
  } else if (S_ISBLK(found.st_mode)) {
    error = EINVAL;  // a disk: nobody means that
  } else if (!S_ISREG(found.st_mode)) {
    kind = PathKind::kInPlace;
    // As the kernel refuses to open such a pipe where it is told to create one.
    if (!OfOurs(found) && Directory(path).AnyoneMayAdd()) error = EACCES;
  }
  raw::Close(fd);
  return error;
}

}  // namespace

int FollowPath(char* path, size_t capacity, PathKind& kind) {
  if (capacity > kMostPath - 1) capacity = kMostPath - 1;
  bool done = false;
  for (int i = 0; i < kMostLinks; ++i) {
    const int error = Look(path, capacity, kind, done);
    if (done) return error;
  }
  return ELOOP;
}

int DescriptorOf(const char* path) {
  const char* at = path + DirectoryLength(path);
  int n = 0;
  if (*at == '\0') return -1;
  for (; *at >= '0' && *at <= '9' && n < 1'000'000; ++at) n = n * 10 + (*at - '0');
  return *at == '\0' ? n : -1;
}

}  // namespace strata
