// The property language: what each statement becomes, and where an error is said to lie.
#include "property.h"

#include <gtest/gtest.h>

#include "bits.h"

namespace lint {
namespace {

constexpr const char* kHead = "property p \"a title\"\nlattice a < b < c, a < d\n";

Property read(const std::string& text) {
  Property p;
  PropertyError e;
  EXPECT_TRUE(parse_property(kHead + text, p, e)) << e.line << ":" << e.column << " " << e.message;
  return p;
}

std::string complaint(const std::string& text) {
  Property p;
  PropertyError e;
  EXPECT_FALSE(parse_property(text, p, e)) << text;
  return std::to_string(e.line) + ":" + std::to_string(e.column) + ": " + e.message;
}

TEST(Property, LatticeIsClosedOverItsOrder) {
  const Property p = read("");
  EXPECT_EQ(p.name, "p");
  EXPECT_EQ(p.title, "a title");
  const auto bits = [&](const char* s) { return p.at_least[p.state(s)]; };
  EXPECT_EQ(bits("a"), 0b1111u);
  EXPECT_EQ(bits("b"), 0b0110u);
  EXPECT_EQ(bits("c"), 0b0100u);
  EXPECT_EQ(bits("d"), 0b1000u);
  EXPECT_EQ(p.state("e"), kNoState);
}

TEST(Property, LatticeOfSeveralLines) {
  const Property p = read("lattice d < e, c < e\nlattice f < a");
  const auto bits = [&](const char* s) { return p.at_least[p.state(s)]; };
  EXPECT_EQ(bits("a"), 0b011111u);
  EXPECT_EQ(bits("b"), 0b010110u);
  EXPECT_EQ(bits("d"), 0b011000u);
  EXPECT_EQ(bits("f"), 0b111111u);
}

TEST(Property, Produce) {
  const Property p =
      read("produce f, \"g(int)\", h* : *1, **3.. = b from a of 2 when return -7 with 2 = \"x\"");
  ASSERT_EQ(p.rules.size(), 1u);
  const Rule& r = p.rules[0];
  EXPECT_EQ(r.kind, Rule::Kind::kProduce);
  EXPECT_EQ(r.functions, (std::vector<std::string>{"f", "g(int)", "h*"}));
  ASSERT_EQ(r.places.size(), 2u);
  EXPECT_EQ(r.places[0].stars, 1);
  EXPECT_EQ(r.places[1].stars, 2);
  EXPECT_TRUE(r.places[0].covers(0));
  EXPECT_FALSE(r.places[0].covers(1));
  EXPECT_FALSE(r.places[1].covers(1));
  EXPECT_TRUE(r.places[1].covers(2));
  EXPECT_TRUE(r.places[1].covers(90));
  EXPECT_EQ(r.state, p.state("b"));
  EXPECT_EQ(r.from, p.state("a"));
  EXPECT_EQ(r.owner, 1);
  EXPECT_EQ(r.returned->kind, Condition::Kind::kEqual);
  EXPECT_EQ(r.returned->value, -7);
  EXPECT_EQ(r.argument_index, 1);
  EXPECT_EQ(r.argument->value, 'x');
  EXPECT_FALSE(r.entry);
}

TEST(Property, BytesFurtherAndWhatIsReturnedElse) {
  const Property p = read("produce f : *1, *1+4 = b when return zero else negative");
  ASSERT_EQ(p.rules.size(), 1u);
  EXPECT_EQ(p.rules[0].places[0].bytes, 0);
  EXPECT_EQ(p.rules[0].places[1].bytes, 4);
  EXPECT_EQ(p.rules[0].returned->kind, Condition::Kind::kNull);
  EXPECT_EQ(p.rules[0].otherwise->kind, Condition::Kind::kNegative);
}

TEST(Property, PassForbidAndTest) {
  const Property p = read(
      "track content\npass f : *2 => *1, return\npass f : 1 -> 2  # words\n"
      "forbid f : 1 is c inside not of 2 \"m\"\nforbid use : b \"u\"\nforbid end : d \"e\"\n"
      "test f : 1 = a when return nonzero\nproduce entry main : **2 = b");
  EXPECT_EQ(p.track, Track::kContent);
  ASSERT_EQ(p.rules.size(), 7u);
  EXPECT_TRUE(p.rules[0].overwrites);
  EXPECT_EQ(p.rules[0].source.first, 1);
  EXPECT_EQ(p.rules[0].places.size(), 2u);
  EXPECT_FALSE(p.rules[1].overwrites);
  EXPECT_TRUE(p.rules[2].inside);
  EXPECT_EQ(p.rules[2].not_owned_by, 1);
  EXPECT_EQ(p.rules[2].message, "m");
  EXPECT_EQ(p.rules[3].kind, Rule::Kind::kForbidUse);
  EXPECT_EQ(p.rules[4].kind, Rule::Kind::kForbidEnd);
  EXPECT_EQ(p.rules[5].returned->kind, Condition::Kind::kNonNull);
  EXPECT_TRUE(p.rules[6].entry);
}

TEST(Property, GlobalVariablesAndLocksThatAreTakenAgain) {
  const Property p = read("produce f : *\"optarg\" = b\nforbid f : 1 is b not recursive \"no\"");
  ASSERT_EQ(p.rules.size(), 2u);
  EXPECT_EQ(p.rules[0].places[0].kind, Place::Kind::kGlobal);
  EXPECT_EQ(p.rules[0].places[0].variable, "optarg");
  EXPECT_EQ(p.rules[0].places[0].stars, 1);
  EXPECT_FALSE(p.rules[0].not_recursive);
  EXPECT_TRUE(p.rules[1].not_recursive);
  EXPECT_EQ(p.rules[1].not_owned_by, -1);
  EXPECT_FALSE(p.rules[1].not_marked);
}

TEST(Property, RightWhereAMarkOfTheRecordDecides) {
  const Property p = read("forbid f : 1 is b not marked \"no\"\nforbid f : 1 is b \"no\"");
  ASSERT_EQ(p.rules.size(), 2u);
  EXPECT_TRUE(p.rules[0].not_marked);
  EXPECT_FALSE(p.rules[0].not_recursive);
  EXPECT_EQ(p.rules[0].not_owned_by, -1);
  EXPECT_FALSE(p.rules[1].not_marked);
}

TEST(Property, ErrorsHaveAPlace) {
  const std::string head = kHead;
  EXPECT_EQ(complaint(head + "produce f : 0 = b"), "3:13: arguments are counted from 1 to 100");
  EXPECT_EQ(complaint(head + "produce f : ****1 = b"), "3:16: at most three '*'");
  EXPECT_EQ(complaint(head + "test f : 1 = b"),
            "3:15: a test needs 'when return ...' at the end of the line");
  EXPECT_EQ(complaint(head + "forbid f : 1 is b"),
            "3:18: expected a message in double quotes at the end of the line");
  EXPECT_EQ(complaint(head + "forbid f : 1 is b \"m"), "3:19: the string has no closing '\"'");
  EXPECT_EQ(complaint(head + "produce f : 1 = b c"), "3:19: expected the end of the line, not 'c'");
  EXPECT_EQ(complaint(head + "track address\npass f : 1 -> 2"), "4:1: a place is not passed on");
  EXPECT_EQ(complaint(head + "pass f : *1 -> 2"),
            "3:16: an object is passed on as 'ARGUMENT -> return' only");
  EXPECT_EQ(read("pass f : 1 -> return").rules.size(), 1u);
  EXPECT_EQ(complaint(head + "property q"), "3:1: the file has a name already");
  EXPECT_EQ(complaint("property p\nlattice a < b, b < a"),
            "2:20: the lattice has a circle through 'a'");
  EXPECT_EQ(complaint(head + "lattice c < a"), "3:13: the lattice has a circle through 'c'");
  EXPECT_EQ(complaint("property p\nproduce f : 1 = b"),
            "2:1: expected a lattice of two states before");
  EXPECT_EQ(complaint("property p\n"), "2:1: expected a lattice");
}

TEST(Property, Globs) {
  EXPECT_TRUE(matches("llvm.memcpy.*", "llvm.memcpy.p0"));
  EXPECT_TRUE(matches("*_chk", "__printf_chk"));
  EXPECT_TRUE(matches("a*b*c", "abbc"));
  EXPECT_FALSE(matches("a*b*c", "abcd"));
  EXPECT_TRUE(matches("*ab*b", "aabab"));
  EXPECT_TRUE(matches("**", ""));
  EXPECT_FALSE(matches("ab*ba", "aba"));
  std::string stars;  // each of the stars tried at each letter would take years
  for (int i = 0; i < 20; ++i) stars += "*a";
  EXPECT_FALSE(matches(stars + "*b", std::string(300, 'a')));
  EXPECT_FALSE(matches("printf", "vprintf"));
}

TEST(Bits, MergeAndMeet) {
  Bits a, b, fresh;
  for (const std::uint32_t n : {1u, 63u, 64u, 500u}) EXPECT_TRUE(a.set(n));
  EXPECT_FALSE(a.set(64));
  for (const std::uint32_t n : {64u, 65u, 700u}) b.set(n);
  EXPECT_TRUE(a.intersects(b));
  EXPECT_TRUE(a.merge(b, &fresh));
  EXPECT_FALSE(a.merge(b, &fresh));
  EXPECT_EQ(a.count(), 6u);
  std::vector<std::uint32_t> added;
  fresh.each([&](std::uint32_t n) { added.push_back(n); });
  EXPECT_EQ(added, (std::vector<std::uint32_t>{65, 700}));
  Bits other;
  other.set(62);
  other.set(501);
  EXPECT_FALSE(a.intersects(other));
  EXPECT_FALSE(a.test(66));
  EXPECT_TRUE(a.test(63));
}

}  // namespace
}  // namespace lint
