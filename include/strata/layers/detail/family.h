// Who lies within whom: the tree of heaps that Nested makes, of the process's reaps
// (src/regions/reap_tree.cpp) and of APR's pools (servers/apr). Links in each member, and what is
// done with them; nothing is locked here, and nothing allocated.
#pragma once

#include <utility>

namespace strata::layers {

template <class Member>
struct FamilyLinks {
  Member* parent = nullptr;
  Member* first_child = nullptr;
  Member* next = nullptr;  // of the same parent
  Member* previous = nullptr;
};

template <class Member, FamilyLinks<Member> Member::* kLinks>
struct Family {
  // It stands alone before; with a null parent, after, too.
  static void Join(Member* m, Member* parent) {
    FamilyLinks<Member>& links = m->*kLinks;
    links.parent = parent;
    if (parent == nullptr) return;
    links.previous = nullptr;
    links.next = std::exchange((parent->*kLinks).first_child, m);
    if (links.next != nullptr) (links.next->*kLinks).previous = m;
  }
  static void Leave(Member* m) {
    FamilyLinks<Member>& links = m->*kLinks;
    if (links.parent == nullptr) return;
    if (links.next != nullptr) (links.next->*kLinks).previous = links.previous;
    (links.previous != nullptr ? (links.previous->*kLinks).next
                               : (links.parent->*kLinks).first_child) = links.next;
    links.parent = links.next = links.previous = nullptr;
  }
  // Whether m is `top`, or below it; null is below nothing.
  static bool IsWithin(const Member* m, const Member* top) {
    while (m != nullptr && m != top) m = (m->*kLinks).parent;
    return m != nullptr;
  }
  // All below `top`, each after those below it, without recursion, for a chain may be long. f may
  // take the member that it is given out of the tree.
  template <class F>
  static void VisitBelow(Member* top, F f) {
    for (Member* at = Deepest(top); at != top;) {
      const FamilyLinks<Member>& links = at->*kLinks;
      Member* const after = links.next != nullptr ? Deepest(links.next) : links.parent;
      f(at);
      at = after;
    }
  }

 private:
  static Member* Deepest(Member* at) {
    while ((at->*kLinks).first_child != nullptr) at = (at->*kLinks).first_child;
    return at;
  }
};

}  // namespace strata::layers
