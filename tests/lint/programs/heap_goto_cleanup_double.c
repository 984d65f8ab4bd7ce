// Wrong on purpose: goto cleanup double.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct job {
  char* name;
  char* data;
};
static int load(struct job* j, const char* n) {
  j->name = strdup(n);
  if (!j->name) return -1;
  j->data = malloc(100);
  if (!j->data) {
    free(j->name);
    return -1;
  }
  if (n[0] == '#') {
    free(j->data);
    goto fail;
  }
  return 0;
fail:
  free(j->name);
  return -2;
}
int main(int a, char** v) {
  struct job j = {0, 0};
  int rc = load(&j, v[a - 1]);
  if (rc == -2) goto out;
  if (rc) return 1;
  puts(j.name);
  free(j.data);
  j.data = 0;
out:
  free(j.name);
  return 0;
}
