// `swap_on_zram MIB MODULE...`: loads the modules, the last of which is zram's, and swaps to a disk
// of that size in memory. `swap_on_zram`: prints how many of DAMON's threads the kernel has.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kPage = 4096 };

static int Fail(const char* what) {
  perror(what);
  return 1;
}

int main(int argc, char** argv) {
  char text[64] = "";
  if (argc == 1) {
    const int fd = open("/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", O_RDONLY);
    if (read(fd, text, sizeof text - 1) <= 0) return Fail("DAMON");
    printf("threads of DAMON: %s", text);
    return 0;
  }
  for (int i = 2; i < argc; ++i) {
    const int fd = open(argv[i], O_RDONLY);
    if (syscall(SYS_finit_module, fd, "", 0) != 0) return Fail(argv[i]);
    close(fd);
  }
  const int size = open("/sys/block/zram0/disksize", O_WRONLY);
  const int length = snprintf(text, sizeof text, "%sM", argv[1]);
  if (write(size, text, (size_t)length) != length) return Fail("disksize");
  close(size);
  // The header of a swap area, as mkswap writes it: version 1 and the number of the last page.
  static char page[kPage];
  const unsigned header[] = {1, (unsigned)atoi(argv[1]) * (1 << 20) / kPage - 1, 0};
  memcpy(page + 1024, header, sizeof header);
  memcpy(page + kPage - 10, "SWAPSPACE2", 10);
  const int disk = open("/dev/zram0", O_WRONLY);
  if (write(disk, page, kPage) != kPage || close(disk) != 0) return Fail("/dev/zram0");
  return swapon("/dev/zram0", 0) == 0 ? 0 : Fail("swapon");
}
