// Output files. See output_path.h.
#include "malloc/output_path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "profile/text_sink.h"

namespace strata {

void ExpandPath(const char* pattern, char* out, size_t capacity) {
  TextSink sink(out, capacity);
  for (; *pattern != '\0'; ++pattern) {
    if (pattern[0] == '%' && pattern[1] == 'p') {
      sink.Number(static_cast<uint64_t>(getpid()));
      ++pattern;
    } else {
      sink.Char(*pattern);
    }
  }
  sink.Finish();
}

ReplacementFile::ReplacementFile(const char* path, mode_t mode) : path_(path) {
  TextSink name(temporary_, sizeof(temporary_));
  name.Text(path).Char('.').Number(static_cast<uint64_t>(getpid())).Text(".tmp").Finish();
  unlink(temporary_);  // left by a process of the same number that died
  fd_ = open(temporary_, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
  open_error_ = fd_ < 0 ? errno : 0;
}

int ReplacementFile::Finish(int error) {
  if (fd_ < 0) return open_error_;
  if (close(fd_) != 0 && error == 0) error = errno;
  if (error == 0 && rename(temporary_, path_) != 0) error = errno;
  if (error != 0) unlink(temporary_);
  return error;
}

}  // namespace strata
