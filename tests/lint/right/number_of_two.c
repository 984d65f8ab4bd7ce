// Right: a descriptor that is moved out of the way; two variables do not hold one.
#include <unistd.h>

static int sending, receiving;

void keep_free(int number) {
  if (sending == number) {
    sending = dup(number);
    close(number);
  }
  if (receiving == number) {
    receiving = dup(number);
    close(number);
  }
}
