// Random chains of calls through functions whose frames are all different; at the bottom of each
// the walk is compared with backtrace. argv[1] is the seed.
#include "compare.h"

#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

static uint64_t state = 1;
static uint64_t Random(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

typedef long (*Link)(int depth, long a, long b);
static long Next(int depth, long a, long b);
static volatile long sink;

__attribute__((noinline)) static long Plain(int depth, long a, long b) {
  return Next(depth, a + 1, b) + a;
}
__attribute__((noinline)) static long ManyRegisters(int depth, long a, long b) {
  long v[6] = {a, b, a * b, a ^ b, a + b, a - b};
  const long r = Next(depth, a, b);
  return r + v[0] * v[1] + v[2] * v[3] + v[4] * v[5] + Next(0, v[0], v[3]);
}
__attribute__((noinline)) static long BigFrame(int depth, long a, long b) {
  volatile char bytes[9000];
  bytes[a & 4095] = (char)b;
  return Next(depth, a, b) + bytes[a & 4095];
}
__attribute__((noinline)) static long HugeFrame(int depth, long a, long b) {
  volatile char bytes[200000];
  bytes[a & 65535] = (char)b;
  return Next(depth, a, b) + bytes[a & 65535];
}
__attribute__((noinline)) static long Alloca(int depth, long a, long b) {
  volatile char* bytes = alloca(16 + (a & 1023));
  bytes[0] = (char)b;
  return Next(depth, a, b) + bytes[0];
}
__attribute__((noinline)) static long Vla(int depth, long a, long b) {
  volatile long words[3 + (b & 255)];
  words[0] = a;
  return Next(depth, a, b) + words[0];
}
__attribute__((noinline)) static long Aligned(int depth, long a, long b) {
  _Alignas(64) volatile char bytes[128];
  bytes[a & 127] = (char)b;
  return Next(depth, a, b) + bytes[a & 127];
}
__attribute__((noinline)) static long AlignedAlloca(int depth, long a, long b) {
  _Alignas(64) volatile char bytes[64];
  volatile char* more = alloca(8 + (b & 511));
  bytes[0] = more[0] = (char)a;
  return Next(depth, a, b) + bytes[0] + more[0];
}
__attribute__((noinline)) static long Variadic(int depth, ...) {
  va_list list;
  va_start(list, depth);
  const long a = va_arg(list, long);
  const long b = va_arg(list, long);
  const long r = Next(depth, a, b);
  va_end(list);
  return r + 1;
}
__attribute__((noinline)) static long ViaVariadic(int depth, long a, long b) {
  return Variadic(depth, a, b) ^ 3;
}
__attribute__((noinline)) static long ManyArguments(long a, long b, long c, long d, long e, long f,
                                                    long g, long h, long depth) {
  return Next((int)depth, a + c + e + g, b + d + f + h) + g;
}
__attribute__((noinline)) static long OnTheStack(int depth, long a, long b) {
  return ManyArguments(a, b, 1, 2, 3, 4, 5, 6, depth) + 1;
}
static int depth_for_sort;
static int CompareItems(const void* x, const void* y) {
  static int nested;
  if (nested++ == 0) sink += Next(depth_for_sort, 5, 6);
  --nested;
  return *(const int*)x - *(const int*)y;
}
__attribute__((noinline)) static long Sort(int depth, long a, long b) {
  int items[40];
  for (int i = 0; i < 40; ++i) items[i] = (int)((a * i) ^ b);
  depth_for_sort = depth > 3 ? 3 : depth;
  qsort(items, 2, sizeof items[0], CompareItems);
  return items[0];
}
// Ends in a call that never returns: the return address is that of whatever code comes next.
static jmp_buf way_back;
__attribute__((noinline, noreturn)) static void Never(int depth, long a, long b) {
  sink += Next(depth, a, b);
  longjmp(way_back, 1);
}
__attribute__((noinline, noreturn)) static void TailNever(int depth, long a, long b) {
  volatile char bytes[64];
  bytes[0] = (char)a;
  Never(depth, a + bytes[0], b);
}
__attribute__((noinline)) static long Noreturn(int depth, long a, long b) {
  static int nested;
  if (nested) return Next(depth, a, b);
  nested = 1;
  if (setjmp(way_back) == 0) TailNever(depth, a, b);
  nested = 0;
  return 1;
}
__attribute__((noinline)) static long Tail(int depth, long a, long b) { return Next(depth, b, a); }
__attribute__((noinline)) static long Float(int depth, long a, long b) {
  volatile double x = (double)a;
  const long r = Next(depth, a, b);
  return r + (long)(x * 1.5);
}

static const Link kLinks[] = {Plain, ManyRegisters, BigFrame,      HugeFrame,   Alloca,
                              Vla,   Aligned,       AlignedAlloca, ViaVariadic, OnTheStack,
                              Sort,  Noreturn,      Tail,          Float};

__attribute__((noinline)) static long Next(int depth, long a, long b) {
  if (depth <= 0) {
    Compare(3);
    return a;
  }
  const Link link = kLinks[Random() % (sizeof kLinks / sizeof kLinks[0])];
  const long r = link(depth - 1, a, b);
  sink += r;
  return r + 1;
}

static void* Thread(void* unused) {
  for (int i = 0; i < 60; ++i) sink += Next((int)(Random() % 25), (long)(Random() % 1000), i);
  return unused;
}

int main(int argc, char** argv) {
  if (argc > 1) state = (uint64_t)atoll(argv[1]) * 0x9e3779b97f4a7c15u | 1;
  PrepareCompare();
  Thread(NULL);
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, 16 << 20);
  pthread_t thread;
  if (pthread_create(&thread, &attr, Thread, NULL) != 0) return 2;
  pthread_join(thread, NULL);
  return compared > 100 && probe_stale() == (getenv("PROBE_UNPREPARED") != NULL) ? 0 : 3;
}
