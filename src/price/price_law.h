// What growth costs while memory is scarce: the law, as pure functions from a snapshot to a rate
// and a delay. After the proposal in E. Berger's talk "Memory Management for High-Performance
// Applications" (slides "Robust Resource Management"): as a resource becomes scarce, it costs more.
// docs/price.md derives it. Sits in price, which knows no kernel and no thread.
//
// The supply that is for sale is the room left, less a reserve. A process's income is the right to
// take so much of it a second:
//
//   income = weight / 100 · max((room - reserve) / patience, most / floor) / (1 + share)
//
// so what is left falls by a part of itself a second at most. Two bounds let growth pass even at
// the reserve: the lowest income, which takes the most that can be for sale (of memory 7.5 % of the
// limit) in floor_s, ten hours; and a payment ends after longest_ns, ten minutes, whatever it is
// for: a block of any size. The price of a byte is one over the income, in seconds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace strata {

// Of one resource, at one moment, in its own units: bytes, or processes.
struct Supply {
  double limit = 0;  // 0: no limit is known, and nothing costs anything
  double used = 0;
  double pressure = 0;  // share of the time in which somebody waited for it, 0 to 1
};

// Who asks.
struct Buyer {
  double holds = 0;  // of the supply that is used
  uint32_t weight = 100;
};

struct PriceTerms {
  double begins;        // costs nothing while more than this share of the limit is left
  double reserve;       // share of the limit that is sold at the highest price only
  double patience_s;    // one buyer alone takes what is for sale down to 1/e of itself in this time
  double floor_s;       // the lowest income sells all that is for sale in this time
  uint64_t longest_ns;  // of one payment
};

inline constexpr PriceTerms kMemoryTerms{0.1, 0.025, 10, 36'000, 600'000'000'000};
// Forks come one by one, and each child is a buyer of its own: so income is divided by their
// number.
inline constexpr PriceTerms kProcessTerms{0.25, 0.05, 10, 3600, 600'000'000'000};

// What is left, as it feels: where everybody waits for memory, less is left than is counted.
inline double FeltRoom(const Supply& s) {
  return std::max(s.limit - s.used, 0.0) * (1 - std::min(s.pressure, 0.9));
}

inline bool IsScarce(const Supply& s, const PriceTerms& t) {
  return s.limit > 0 && FeltRoom(s) < t.begins * s.limit;
}

// Units a second that the buyer may take without waiting. Only while it is scarce.
inline double Income(const Supply& s, const Buyer& b, const PriceTerms& t) {
  const double for_sale = std::max(FeltRoom(s) - t.reserve * s.limit, 0.0);
  const double most = (t.begins - t.reserve) * s.limit;
  const double share = s.used > 0 ? std::min(b.holds / s.used, 1.0) : 0.0;
  const double income = std::max(for_sale / t.patience_s, most / t.floor_s);
  return income * b.weight / 100 / (1 + share);
}

// Seconds a unit; 0 while it is not scarce.
inline double PriceOf(const Supply& s, const Buyer& b, const PriceTerms& t) {
  return IsScarce(s, t) ? 1 / Income(s, b, t) : 0;
}

// Of two limits that bind at once, whether `a` is the one that counts: it costs more or, while
// neither costs anything, it will after less growth. A large limit may be nearer to its end by its
// share and cost nothing yet.
inline bool IsDearer(const Supply& a, const Supply& b, const Buyer& buyer, const PriceTerms& t) {
  const double price_a = PriceOf(a, buyer, t);
  const double price_b = PriceOf(b, buyer, t);
  if (price_a != price_b) return price_a > price_b;
  return FeltRoom(a) - t.begins * a.limit < FeltRoom(b) - t.begins * b.limit;
}

// What a buyer may owe without waiting, so that who only wavers never does: of half the reserve the
// part that he holds of all that is used. All buyers together have no more than that half, nor more
// than is left: a limit may be lowered to just above what is used.
inline double SavingsOf(const Supply& s, const Buyer& b, const PriceTerms& t) {
  const double share = s.used > 0 ? std::min(b.holds / s.used, 1.0) : 0.0;
  return share * std::min(t.reserve / 2 * s.limit, std::max(s.limit - s.used, 0.0));
}

// How long who owes `debt` waits.
inline uint64_t DelayNs(const Supply& s, const Buyer& b, const PriceTerms& t, double debt) {
  const double due = debt - SavingsOf(s, b, t);
  if (!IsScarce(s, t) || due <= 0) return 0;
  const double ns = due * PriceOf(s, b, t) * 1e9;
  return ns < static_cast<double>(t.longest_ns) ? static_cast<uint64_t>(ns) : t.longest_ns;
}

// How much growth goes between two looks at the supply while nobody waits: a part of the way to
// where it begins to cost, or of what is for sale; small enough that several processes at once do
// not take it all. Of several limits the least counts, whichever is the dearest: a small one that
// costs nothing yet is soon at its end.
inline double StepOf(const Supply& s, const PriceTerms& t, double least, double most) {
  constexpr double kWayPerLook = 1.0 / 16, kSalePerLook = 1.0 / 64;
  if (s.limit == 0) return most;
  const double room = FeltRoom(s) - t.begins * s.limit;
  const double for_sale = FeltRoom(s) - t.reserve * s.limit;
  return std::clamp(room > 0 ? room * kWayPerLook : for_sale * kSalePerLook, least, most);
}

}  // namespace strata
