// Random numbers from a key that must stay secret: SipHash-2-4 (Aumasson and Bernstein 2012) of a
// counter. Addresses drawn so tell nothing of the key, which for this process is the kernel's 16
// random bytes: libc's stack canary and pointer guard come from the same. Sits in base.
#pragma once

#include <cstdint>

namespace strata {

class KeyedRandom {
 public:
  constexpr KeyedRandom(uint64_t key0, uint64_t key1) : key0_(key0), key1_(key1) {}

  constexpr uint64_t Next() {
    State s{key0_ ^ 0x736f6d6570736575u, key1_ ^ 0x646f72616e646f6du, key0_ ^ 0x6c7967656e657261u,
            key1_ ^ 0x7465646279746573u};
    s.Absorb(count_++);
    s.Absorb(uint64_t{8} << 56);  // the message's length
    s.v2 ^= 0xff;
    for (int i = 0; i < 4; ++i) s.Round();
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
  }

 private:
  struct State {
    uint64_t v0, v1, v2, v3;

    static constexpr uint64_t Rotate(uint64_t x, int by) { return x << by | x >> (64 - by); }
    constexpr void Round() {
      v0 += v1;
      v2 += v3;
      v1 = Rotate(v1, 13) ^ v0;
      v3 = Rotate(v3, 16) ^ v2;
      v0 = Rotate(v0, 32) + v3;
      v2 += v1;
      v3 = Rotate(v3, 21) ^ v0;
      v1 = Rotate(v1, 17) ^ v2;
      v2 = Rotate(v2, 32);
    }
    constexpr void Absorb(uint64_t word) {
      v3 ^= word;
      Round();
      Round();
      v0 ^= word;
    }
  };

  uint64_t key0_, key1_;
  uint64_t count_ = 0;
};

}  // namespace strata
