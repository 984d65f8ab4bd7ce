// Factors numbers by continued fractions (Morrison and Brillhart, 1975), as the classic allocation
// benchmark cfrac does: every number is a block of its own, every operation makes a new one, and
// nearly all of them live for a few operations. The numbers that make a relation stay. Each factor
// found is checked by division.
#include <algorithm>
#include <utility>
#include <vector>

#include "common.h"

namespace {

uint64_t g_blocks = 0;

// A number of any length, not negative, in a block of exactly its length.
class Big {
 public:
  Big() : Big(uint64_t{0}) {}
  Big(uint64_t value) : Big(Block::Make(2)) {  // NOLINT(google-explicit-constructor)
    block_->limb[0] = static_cast<uint32_t>(value);
    block_->limb[1] = static_cast<uint32_t>(value >> 32);
    Trim();
  }
  Big(const Big& o) : Big(Block::Make(o.size())) {
    memcpy(block_->limb, o.block_->limb, 4 * o.size());
  }
  Big(Big&& o) noexcept : block_(std::exchange(o.block_, nullptr)) {}
  Big& operator=(Big o) noexcept {
    std::swap(block_, o.block_);
    return *this;
  }
  ~Big() { free(block_); }

  static Big Parse(const char* digits) {
    Big n;
    for (; *digits != '\0'; ++digits) n = n * Big(10) + Big(static_cast<uint64_t>(*digits - '0'));
    return n;
  }

  size_t size() const { return block_->size; }
  uint32_t operator[](size_t i) const { return i < size() ? block_->limb[i] : 0; }
  bool IsZero() const { return size() == 0; }
  bool IsOdd() const { return ((*this)[0] & 1) != 0; }
  uint64_t Low() const { return (*this)[0] | uint64_t{(*this)[1]} << 32; }
  size_t Bits() const {
    return IsZero() ? 0 : 32 * size() - static_cast<size_t>(__builtin_clz((*this)[size() - 1]));
  }

  int Compare(const Big& o) const {
    if (size() != o.size()) return size() < o.size() ? -1 : 1;
    for (size_t i = size(); i-- > 0;) {
      if ((*this)[i] != o[i]) return (*this)[i] < o[i] ? -1 : 1;
    }
    return 0;
  }
  bool operator<(const Big& o) const { return Compare(o) < 0; }
  bool operator==(const Big& o) const { return Compare(o) == 0; }

  Big operator+(const Big& o) const {
    Big sum(Block::Make(std::max(size(), o.size()) + 1));
    uint64_t carry = 0;
    for (size_t i = 0; i < sum.size(); ++i) {
      carry += uint64_t{(*this)[i]} + o[i];
      sum.block_->limb[i] = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    return sum.Trim();
  }
  Big operator-(const Big& o) const {  // o is not larger
    Big rest(Block::Make(size()));
    int64_t borrow = 0;
    for (size_t i = 0; i < size(); ++i) {
      borrow += int64_t{(*this)[i]} - o[i];
      rest.block_->limb[i] = static_cast<uint32_t>(borrow);
      borrow >>= 32;
    }
    return rest.Trim();
  }
  Big operator*(const Big& o) const {
    Big product(Block::Make(size() + o.size()));
    memset(product.block_->limb, 0, 4 * product.size());
    for (size_t i = 0; i < size(); ++i) {
      uint64_t carry = 0;
      for (size_t j = 0; j <= o.size() && i + j < product.size(); ++j) {
        carry += uint64_t{(*this)[i]} * o[j] + product[i + j];
        product.block_->limb[i + j] = static_cast<uint32_t>(carry);
        carry >>= 32;
      }
    }
    return product.Trim();
  }
  uint32_t ModSmall(uint32_t d) const {
    uint64_t rest = 0;
    for (size_t i = size(); i-- > 0;) rest = ((rest << 32) | (*this)[i]) % d;
    return static_cast<uint32_t>(rest);
  }
  Big DivSmall(uint32_t d) const {
    Big quotient(Block::Make(size()));
    uint64_t rest = 0;
    for (size_t i = size(); i-- > 0;) {
      rest = (rest << 32) | (*this)[i];
      quotient.block_->limb[i] = static_cast<uint32_t>(rest / d);
      rest %= d;
    }
    return quotient.Trim();
  }
  Big operator/(const Big& d) const { return DivMod(d).first; }
  Big operator%(const Big& d) const { return DivMod(d).second; }

  Big ShiftedLeft(size_t bits) const {
    Big shifted(Block::Make(size() + bits / 32 + 1));
    for (size_t i = 0; i < shifted.size(); ++i) {
      const size_t from = i - bits / 32;
      const uint64_t low = i < bits / 32 || from == 0 ? 0 : (*this)[from - 1];
      const uint64_t high = i < bits / 32 ? 0 : (*this)[from];
      shifted.block_->limb[i] = static_cast<uint32_t>((high << 32 | low) >> (32 - bits % 32));
    }
    return shifted.Trim();
  }

  // By the leading 62 bits, which are never too large a guess; few rounds.
  std::pair<Big, Big> DivMod(const Big& d) const {
    Big quotient, rest(*this);
    while (!(rest < d)) {
      const size_t gap = rest.Bits() - d.Bits();
      const uint64_t top = rest.Leading(62), bottom = d.Leading(31) + 1;
      const uint64_t guess = top / bottom;  // of 31 bits, to be shifted by gap - 31
      Big part = gap >= 31 ? Big(guess).ShiftedLeft(gap - 31) : Big(guess >> (31 - gap));
      if (part.IsZero()) part = Big(1);
      rest = rest - part * d;
      quotient = quotient + part;
    }
    return {std::move(quotient), std::move(rest)};
  }

  Big Sqrt() const {  // rounded down
    if (IsZero()) return {};
    Big x = Big(1).ShiftedLeft(Bits() / 2 + 1);
    while (true) {
      Big next = (x + *this / x).DivSmall(2);
      if (!(next < x)) return x;
      x = std::move(next);
    }
  }

 private:
  struct Block {
    uint32_t size;
    uint32_t limb[1];
    static Block* Make(size_t limbs) {
      ++g_blocks;
      auto* b = static_cast<Block*>(bench::CheckedMalloc(sizeof(uint32_t) * (limbs + 1)));
      b->size = static_cast<uint32_t>(limbs);
      return b;
    }
  };
  explicit Big(Block* block) : block_(block) {}

  Big& Trim() {
    while (block_->size != 0 && block_->limb[block_->size - 1] == 0) --block_->size;
    return *this;
  }
  // The highest `count` bits, at most 62, as if there were more zeros below.
  uint64_t Leading(size_t count) const {
    const size_t at = size(), unused = 32 * at - Bits();
    unsigned __int128 top = 0;
    for (size_t i = 1; i <= 3; ++i) top = top << 32 | (i <= at ? (*this)[at - i] : 0);
    return static_cast<uint64_t>(top >> (96 - unused - count)) & ((uint64_t{1} << count) - 1);
  }

  Block* block_;
};

Big Gcd(Big a, Big b) {
  while (!b.IsZero()) {
    Big rest = a % b;
    a = std::move(b);
    b = std::move(rest);
  }
  return a;
}

// a^e mod p.
uint64_t Power(uint64_t a, uint64_t e, uint64_t p) {
  uint64_t result = 1;
  for (a %= p; e != 0; e >>= 1, a = a * a % p) {
    if (e & 1) result = result * a % p;
  }
  return result;
}

bool IsPrime(uint32_t n) {
  for (uint32_t d = 2; d * d <= n; ++d) {
    if (n % d == 0) return false;
  }
  return n > 1;
}

// 2 and the primes by which a Q can be divided: those of which n is a square.
std::vector<uint32_t> FactorBase(const Big& n, size_t count) {
  std::vector<uint32_t> base{2};
  for (uint32_t p = 3; base.size() < count; p += 2) {
    if (IsPrime(p) && Power(n.ModSmall(p), (p - 1) / 2, p) <= 1) base.push_back(p);
  }
  return base;
}

// A^2 = (-1)^odd Q mod n, where Q has these exponents over the base.
struct Relation {
  Big a;
  std::vector<uint8_t> exponents;  // the first one is the sign's
  std::vector<bool> members;       // of the relations found, which went into this one
  std::vector<bool> parity;
};

// Divides q by the base; an empty vector when something is left, or so much after the first primes
// that it will hardly come down to nothing (early abort).
std::vector<uint8_t> Exponents(Big q, bool odd, const std::vector<uint32_t>& base) {
  constexpr size_t kFirstPrimes = 12, kHopeless = 34;
  std::vector<uint8_t> found(base.size() + 1);
  found[0] = odd;
  for (size_t i = 0; i < base.size(); ++i) {
    if (i == kFirstPrimes && q.Bits() > kHopeless) break;
    while (!q.IsZero() && q.ModSmall(base[i]) == 0) {
      q = q.DivSmall(base[i]);
      ++found[i + 1];
    }
  }
  if (!(q == Big(1))) found.clear();
  return found;
}

// Tries the product of the relations marked in `members`.
Big FactorFrom(const Big& n, const std::vector<Relation>& all, const std::vector<bool>& members,
               const std::vector<uint32_t>& base) {
  Big x(1), y(1);
  std::vector<uint32_t> sum(base.size() + 1);
  for (size_t i = 0; i < all.size(); ++i) {
    if (!members[i]) continue;
    x = x * all[i].a % n;
    for (size_t j = 0; j < sum.size(); ++j) sum[j] += all[i].exponents[j];
  }
  for (size_t j = 1; j < sum.size(); ++j) {
    for (uint32_t e = 0; e < sum[j] / 2; ++e) y = y * Big(base[j - 1]) % n;
  }
  return Gcd(x < y ? y - x : x - y, n);
}

// Gaussian elimination modulo 2: each row that becomes zero is a product of squares.
Big Solve(const Big& n, std::vector<Relation>& all, const std::vector<uint32_t>& base) {
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].members.assign(all.size(), false);
    all[i].members[i] = true;
    all[i].parity.clear();
    for (uint8_t e : all[i].exponents) all[i].parity.push_back(e % 2 != 0);
  }
  std::vector<bool> used(all.size());
  for (size_t column = 0; column <= base.size(); ++column) {
    size_t pivot = 0;
    while (pivot < all.size() && (used[pivot] || !all[pivot].parity[column])) ++pivot;
    if (pivot == all.size()) continue;
    used[pivot] = true;
    for (size_t row = 0; row < all.size(); ++row) {
      if (row == pivot || !all[row].parity[column]) continue;
      for (size_t j = 0; j <= base.size(); ++j)
        all[row].parity[j] = all[row].parity[j] != all[pivot].parity[j];
      for (size_t j = 0; j < all.size(); ++j)
        all[row].members[j] = all[row].members[j] != all[pivot].members[j];
    }
  }
  for (size_t row = 0; row < all.size(); ++row) {
    if (used[row]) continue;
    Big factor = FactorFrom(n, all, all[row].members, base);
    if (!(factor == Big(1)) && !(factor == n)) return factor;
  }
  return {};
}

// A factor of n, from the expansion of the root of n times k.
Big Factor(const Big& n, uint64_t k, size_t base_size) {
  const Big kn = n * Big(k), root = kn.Sqrt();
  const std::vector<uint32_t> base = FactorBase(kn, base_size);
  std::vector<Relation> relations;
  Big p, q(1), quotient = root, a = root % n, a_before(1);
  for (bool odd = true; relations.size() < base_size + 12; odd = !odd) {
    Big p_next = quotient * q - p;
    q = (kn - p_next * p_next) / q;
    p = std::move(p_next);
    quotient = (root + p) / q;
    std::vector<uint8_t> exponents = Exponents(q, odd, base);
    if (!exponents.empty()) relations.push_back({a, std::move(exponents), {}, {}});
    if (q == Big(1)) return {};  // the expansion repeats itself
    Big next = (quotient * a + a_before) % n;
    a_before = std::move(a);
    a = std::move(next);
  }
  return Solve(n, relations, base);
}

// Products of two primes of 38 and 39 bits.
constexpr const char* kNumbers[] = {"82190977532385532102157", "76890355294899150246373",
                                    "57850100741617200029837", "97531195458103591230091"};

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const auto rounds = static_cast<uint64_t>(options.Scaled("rounds", 8) + 0.999);
  const size_t base = options.Count("base", 120);
  options.RejectUnknown();

  bench::Total total;
  total.threads = 1;
  uint64_t factored = 0;
  const uint64_t start = bench::NowNs();
  for (uint64_t round = 0; round < rounds; ++round) {
    const Big n = Big::Parse(kNumbers[round % 4]);
    Big factor;
    for (uint64_t k = 1; k < 40 && factor.IsZero(); ++k) factor = Factor(n, k, base);
    if (factor.IsZero()) bench::Die("no factor found");
    if (!(n % factor).IsZero()) bench::Die("a factor that does not divide");
    ++factored;
  }
  total.ops = g_blocks;
  total.busy = total.longest = bench::Since(start);
  bench::Report report("classic-cfrac");
  report.Add("factored=%llu", static_cast<unsigned long long>(factored));
  report.Rate(total);
  report.Finish();
  return 0;
}
