// Minimizes two-level logic as espresso does (Brayton and others, 1984): a function, given as a
// list of cubes, is complemented, its cubes are expanded against the complement, those that the
// rest covers are dropped, and the others reduced, until it gets no smaller. Every cube and every
// list of cubes is a block of its own, made and freed by the recursion over the variables. The
// result must cover what was given and nothing of the complement.
#include <algorithm>
#include <utility>
#include <vector>

#include "common.h"

namespace {

uint64_t g_blocks = 0;
size_t g_variables = 0;

// A product of literals: two bits a variable; 01: negated, 10: as it is, 11: either, 00: nothing.
struct Cube {
  uint32_t size;     // of the bits, in words
  uint32_t covered;  // a mark
  uint64_t bits[1];
};

constexpr size_t kPerWord = 32;
constexpr uint64_t kOdd = 0x5555555555555555u;

size_t Words() { return (g_variables + kPerWord - 1) / kPerWord; }

Cube* NewCube() {
  ++g_blocks;
  auto* c = static_cast<Cube*>(bench::CheckedMalloc(2 * sizeof(uint32_t) + 8 * Words()));
  c->size = static_cast<uint32_t>(Words());
  c->covered = 0;
  return c;
}
Cube* Copy(const Cube* from) {
  Cube* c = NewCube();
  memcpy(c->bits, from->bits, 8 * c->size);
  return c;
}
Cube* Universe() {
  Cube* c = NewCube();
  for (size_t w = 0; w < c->size; ++w) c->bits[w] = ~uint64_t{0};
  return c;
}

unsigned LiteralAt(const Cube* c, size_t v) {
  return static_cast<unsigned>(c->bits[v / kPerWord] >> (2 * (v % kPerWord))) & 3;
}
void SetLiteral(Cube* c, size_t v, unsigned literal) {
  uint64_t& word = c->bits[v / kPerWord];
  const size_t shift = 2 * (v % kPerWord);
  word = (word & ~(uint64_t{3} << shift)) | uint64_t{literal} << shift;
}
bool Meet(const Cube* a, const Cube* b) {
  for (size_t w = 0; w < a->size; ++w) {
    const uint64_t both = a->bits[w] & b->bits[w];
    if (((both | both >> 1) & kOdd) != kOdd) return false;
  }
  return true;
}
bool Contains(const Cube* a, const Cube* b) {
  for (size_t w = 0; w < a->size; ++w) {
    if ((b->bits[w] & ~a->bits[w]) != 0) return false;
  }
  return true;
}
size_t Literals(const Cube* c) {
  size_t n = 0;
  for (size_t w = 0; w < c->size; ++w)
    n += static_cast<size_t>(__builtin_popcountll(~(c->bits[w] & c->bits[w] >> 1) & kOdd));
  return n;
}

// A sum of cubes, which it owns.
class Cover {
 public:
  Cover() = default;
  Cover(Cover&& o) noexcept : cubes_(std::move(o.cubes_)) { o.cubes_.clear(); }
  Cover& operator=(Cover&& o) noexcept {
    cubes_.swap(o.cubes_);
    return *this;
  }
  ~Cover() {
    for (Cube* c : cubes_) free(c);
  }

  void Add(Cube* c) { cubes_.push_back(c); }
  void AddAll(Cover&& o) {
    for (Cube* c : o.cubes_) cubes_.push_back(c);
    o.cubes_.clear();
  }
  size_t size() const { return cubes_.size(); }
  Cube* operator[](size_t i) const { return cubes_[i]; }
  auto begin() const { return cubes_.begin(); }
  auto end() const { return cubes_.end(); }

  void DropCovered() {
    const auto gone = [](Cube* c) {
      if (c->covered != 0) free(c);
    };
    for (Cube* c : cubes_) c->covered = c->covered != 0;
    const auto keep = std::stable_partition(cubes_.begin(), cubes_.end(),
                                            [](const Cube* c) { return c->covered == 0; });
    std::for_each(keep, cubes_.end(), gone);
    cubes_.erase(keep, cubes_.end());
  }
  // The largest first.
  void Sort() {
    std::stable_sort(cubes_.begin(), cubes_.end(),
                     [](const Cube* a, const Cube* b) { return Literals(a) < Literals(b); });
  }
  size_t Cost() const {
    size_t cost = 0;
    for (const Cube* c : cubes_) cost += 1 + Literals(c);
    return cost;
  }

 private:
  std::vector<Cube*> cubes_;
};

// What is left of the cover within the half where v has `literal`.
Cover Cofactor(const Cover& f, size_t v, unsigned literal) {
  Cover half;
  for (const Cube* c : f) {
    if ((LiteralAt(c, v) & literal) == 0) continue;
    Cube* copy = Copy(c);
    SetLiteral(copy, v, 3);
    half.Add(copy);
  }
  return half;
}
// The same within a cube, without the `skipped` one.
Cover CofactorBy(const Cover& f, const Cube* by, const Cube* skipped) {
  Cover part;
  for (const Cube* c : f) {
    if (c == skipped || c->covered != 0 || !Meet(c, by)) continue;
    Cube* copy = Copy(c);
    for (size_t w = 0; w < copy->size; ++w) copy->bits[w] |= ~by->bits[w];
    part.Add(copy);
  }
  return part;
}

bool HasUniverse(const Cover& f) {
  return std::any_of(f.begin(), f.end(), [](const Cube* c) { return Literals(c) == 0; });
}

// The variable on which most cubes depend, in both ways if there is one; g_variables: none.
size_t SplitVariable(const Cover& f) {
  size_t best = g_variables, best_score = 0;
  for (size_t v = 0; v < g_variables; ++v) {
    size_t counts[4] = {};
    for (const Cube* c : f) ++counts[LiteralAt(c, v)];
    const size_t score = (counts[1] + counts[2]) + 1000 * std::min(counts[1], counts[2]);
    if (score > best_score) {
      best = v;
      best_score = score;
    }
  }
  return best;
}

bool IsTautology(const Cover& f) {
  if (HasUniverse(f)) return true;
  const size_t v = SplitVariable(f);
  if (v == g_variables) return false;
  return IsTautology(Cofactor(f, v, 1)) && IsTautology(Cofactor(f, v, 2));
}

// All that f does not cover.
Cover Complement(const Cover& f) {
  Cover result;
  if (f.size() == 0) {
    result.Add(Universe());
    return result;
  }
  if (HasUniverse(f)) return result;
  if (f.size() == 1) {  // De Morgan
    for (size_t v = 0; v < g_variables; ++v) {
      const unsigned literal = LiteralAt(f[0], v);
      if (literal == 3) continue;
      Cube* c = Universe();
      SetLiteral(c, v, 3 - literal);
      result.Add(c);
    }
    return result;
  }
  const size_t v = SplitVariable(f);
  Cover halves[2] = {Complement(Cofactor(f, v, 1)), Complement(Cofactor(f, v, 2))};
  // Cubes that are in both halves need no literal.
  for (Cube* a : halves[0]) {
    for (Cube* b : halves[1]) {
      if (b->covered == 0 && memcmp(a->bits, b->bits, 8 * a->size) == 0) {
        b->covered = 1;
        a->covered = 2;
        break;
      }
    }
  }
  halves[1].DropCovered();
  for (unsigned h = 0; h < 2; ++h) {
    for (Cube* c : halves[h]) {
      if (c->covered == 0) SetLiteral(c, v, h + 1);
      c->covered = 0;
    }
    result.AddAll(std::move(halves[h]));
  }
  return result;
}

// Each cube loses the literals that it can without meeting `off`; cubes within it go.
void Expand(Cover& f, const Cover& off) {
  f.Sort();
  for (Cube* c : f) {
    if (c->covered != 0) continue;
    for (size_t v = 0; v < g_variables; ++v) {
      const unsigned before = LiteralAt(c, v);
      if (before == 3) continue;
      SetLiteral(c, v, 3);
      const bool bad =
          std::any_of(off.begin(), off.end(), [&](const Cube* o) { return Meet(c, o); });
      if (bad) SetLiteral(c, v, before);
    }
    for (Cube* other : f) {
      if (other != c && other->covered == 0 && Contains(c, other)) other->covered = 1;
    }
  }
  f.DropCovered();
}

void Irredundant(Cover& f) {
  for (size_t i = f.size(); i-- > 0;) {
    if (IsTautology(CofactorBy(f, f[i], f[i]))) f[i]->covered = 1;
  }
  f.DropCovered();
}

// Each cube shrinks to the smallest one around what only it covers.
void Reduce(Cover& f) {
  for (Cube* c : f) {
    const Cover alone = Complement(CofactorBy(f, c, c));
    if (alone.size() == 0) continue;
    Cube* around = NewCube();
    memset(around->bits, 0, 8 * around->size);
    for (const Cube* part : alone) {
      for (size_t w = 0; w < around->size; ++w) around->bits[w] |= part->bits[w];
    }
    for (size_t w = 0; w < around->size; ++w) c->bits[w] &= around->bits[w];
    free(around);
  }
}

Cover Minimize(const Cover& given) {
  Cover f;
  for (const Cube* c : given) f.Add(Copy(c));
  const Cover off = Complement(f);
  Expand(f, off);
  Irredundant(f);
  for (size_t cost = f.Cost();;) {
    Reduce(f);
    Expand(f, off);
    Irredundant(f);
    if (f.Cost() >= cost) break;
    cost = f.Cost();
  }
  for (const Cube* c : given) {
    if (!IsTautology(CofactorBy(f, c, nullptr))) bench::Die("the result covers too little");
  }
  for (const Cube* c : f) {
    for (const Cube* o : off) {
      if (Meet(c, o)) bench::Die("the result covers too much");
    }
  }
  return f;
}

// Cubes that are each other's neighbours often enough to have something to minimize.
Cover Draw(bench::Random& random, size_t cubes) {
  Cover f;
  for (size_t i = 0; i < cubes; ++i) {
    Cube* c = i % 3 == 0 ? Universe() : Copy(f[random.Below(f.size())]);
    for (size_t v = 0; v < g_variables; ++v) {
      if (i % 3 == 0 ? random.Below(10) < 6 : random.Below(10) < 1)
        SetLiteral(c, v, 1 + static_cast<unsigned>(random.Below(2)));
    }
    f.Add(c);
  }
  return f;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  g_variables = options.Count("variables", 12);
  const size_t cubes = options.Count("cubes", 60);
  const auto functions = static_cast<uint64_t>(options.Scaled("functions", 40) + 0.999);
  options.RejectUnknown();
  if (g_variables == 0 || cubes == 0) bench::Die("--variables and --cubes above zero");

  bench::Random random(11);
  bench::Total total;
  total.threads = 1;
  size_t before = 0, after = 0;
  const uint64_t start = bench::NowNs();
  for (uint64_t i = 0; i < functions; ++i) {
    const Cover given = Draw(random, cubes);
    const Cover least = Minimize(given);
    before += given.size();
    after += least.size();
  }
  total.busy = total.longest = bench::Since(start);
  total.ops = g_blocks;
  bench::Report report("classic-espresso");
  report.Add("cubes=%zu left=%zu", before, after);
  report.Rate(total);
  report.Finish();
  return 0;
}
