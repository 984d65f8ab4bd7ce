// A device that is asked whether it is there, by a number that nobody wants for itself.
#include <fcntl.h>

static int has_disk(void) { return open("/dev/sda", O_RDONLY) >= 0; }

int main(void) { return has_disk() ? 0 : 1; }
