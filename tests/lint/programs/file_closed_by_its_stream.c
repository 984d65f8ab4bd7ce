// fclose closes the descriptor that the stream was made from as well.
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int first(const char* name) {
  int descriptor = open(name, O_RDONLY);
  if (descriptor < 0) return -1;
  FILE* stream = fdopen(descriptor, "r");
  if (stream == NULL) {
    close(descriptor);
    return -1;
  }
  int c = fgetc(stream);
  fclose(stream);
  close(descriptor);
  return c;
}
