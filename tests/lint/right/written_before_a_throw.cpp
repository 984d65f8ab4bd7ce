// Right: the text is freed again only if what threw has written that there is none.
#include <cstdlib>

struct slot {
  char* text;
};
static slot* now;

static void fail(int why) {
  now->text = nullptr;
  throw why;
}

static void fail_for(int why, int much) {
  if (much > 9) fail(why + 1);
  fail(why);
}

static int work(int n) {
  try {
    if (n > 1) fail_for(n, n + 1);
  } catch (int) {
    return -1;
  }
  return 0;
}

int ask(int n) {
  slot s;
  s.text = static_cast<char*>(std::malloc(8));
  if (s.text == nullptr) return 1;
  now = &s;
  std::free(s.text);
  if (work(n) < 0) std::free(s.text);
  return 0;
}
