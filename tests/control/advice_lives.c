// Objects that live for moments and for a fifth of a second, for so many ms, or until it is killed:
// then it says "ready" when one in twenty of all is alive at most.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kOften = 100, kTurn = 10000, kHeld = 22 };  // a turn takes 10 ms

__attribute__((noinline)) void* MakeBrief(size_t n) { return memset(malloc(n), 1, n); }
__attribute__((noinline)) void* MakeLonger(size_t n) { return memset(malloc(n), 1, n); }

int main(int argc, char** argv) {
  static void* held[kHeld][kOften];
  const int turns = argc > 1 ? atoi(argv[1]) / 10 : 0;
  void* volatile stays = memset(malloc(9 << 20), 1, 9 << 20);  // worth a background thread
  for (int turn = 0; turns == 0 || turn < turns; ++turn) {
    for (int i = 0; i < kOften; ++i) {
      void* volatile brief = MakeBrief(400);
      free(brief);
      free(held[turn % kHeld][i]);
      held[turn % kHeld][i] = MakeLonger(400);
    }
    usleep(kTurn);
    if (turn == 600) puts("ready"), fflush(stdout);
  }
  return stays == NULL;
}
