// Wrong on purpose: fd leak fstat.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char* slurp(const char* p, size_t* n) {
  struct stat st;
  int fd = open(p, O_RDONLY);
  if (fd < 0) return NULL;
  if (fstat(fd, &st) < 0) return NULL;
  char* b = malloc(st.st_size + 1);
  if (!b) {
    close(fd);
    return NULL;
  }
  ssize_t r = read(fd, b, st.st_size);
  close(fd);
  if (r < 0) {
    free(b);
    return NULL;
  }
  *n = r;
  return b;
}
int main(int a, char** v) {
  size_t n;
  char* b = slurp(v[1], &n);
  free(b);
  return 0;
}
