// Whether the folder is closed hangs on another flag than whether it was opened here.
#include <dirent.h>
#include <stdio.h>

#define OWN 4
#define KEEP 8
struct search {
  int flags, found;
  void* (*open)(const char* name);
  struct dirent* (*read)(void* folder, struct search* s);
};

static struct dirent* first(void* folder, struct search* s) {
  s->flags |= 1;
  return readdir(folder);
}

static void* begin(const char* name, struct search* s) {
  if (s->flags & OWN) return (*s->open)(name);
  return opendir(name);
}

static int find(const char* name, struct search* s) {
  void* folder = begin(name, s);
  if (!folder) return -1;
  while ((*s->read)(folder, s)) s->found++;
  if (!(s->flags & KEEP)) closedir(folder);
  return s->found;
}

int main(int argc, char** argv) {
  struct search s = {0};
  s.read = first;
  s.flags = argc;
  return find(argv[0], &s);
}
