// Right: the mark changes only on the way to the program's end.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct channel {
  int shared, in, out;
};
static struct channel channels[4];

static void (*on_exit_)(const char*) __attribute__((noreturn));

static void leave(const char* why) __attribute__((noreturn));
static void leave(const char* why) {
  for (int i = 0; i < 4; ++i) channels[i].shared = 0;
  fprintf(stderr, "%s\n", why);
  exit(1);
}

static void shut(int d) {
  if (close(d) < 0) on_exit_("cannot be closed");
}

static void drop(struct channel* c, int d) {
  int all = 0;
  if (!c->shared) {
    shut(d);
    all = 1;
  }
  if (all && d == c->in) c->in = -1;
  if (all && d == c->out) c->out = -1;
  if (c->shared && c->in == -1 && c->out == -1) shut(d);
}

int main(int argc, char** argv) {
  (void)argv;
  on_exit_ = leave;
  channels[0].shared = argc > 1;
  channels[0].in = dup(0);
  channels[0].out = dup(1);
  drop(&channels[0], channels[0].in);
  drop(&channels[0], channels[0].out);
  return 0;
}
