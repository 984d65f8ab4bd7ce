// A library for the dlopen storm. Its functions' frames depend on SHAPE, so that the wrong build's
// tables lead astray.
#include <stddef.h>
#include <stdint.h>

typedef size_t (*Leaf)(uintptr_t* out, size_t max);

__attribute__((noinline)) static size_t Inner(Leaf leaf, uintptr_t* out, size_t max, int depth) {
  volatile char bytes[24 + SHAPE * 88];
  bytes[0] = (char)depth;
  if (depth == 0) return leaf(out, max) + (size_t)(bytes[0] != 0);
  const size_t n = Inner(leaf, out, max, depth - 1);
  return n + (size_t)(bytes[0] != depth);
}

// The walk is made twelve frames of this library deep.
size_t plugin_walk(Leaf leaf, uintptr_t* out, size_t max) {
  volatile char bytes[16 + SHAPE * 56];
  bytes[0] = 1;
  return Inner(leaf, out, max, 11) + (size_t)(bytes[0] != 1);
}
