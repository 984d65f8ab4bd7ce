// Wrong on purpose: what new[] made is freed; the count says nothing of who made it.
#include <cstdlib>

struct Items {
  int count;
  int* items;
};

static Items* make(int n) {
  auto* made = static_cast<Items*>(malloc(sizeof(Items)));
  if (made == nullptr) return nullptr;
  made->count = n;
  made->items = new int[static_cast<unsigned>(n)];
  return made;
}

static void drop(Items* one) {
  if (one->count != 0) free(one->items);
  free(one);
}

int main(int argc, char**) {
  Items* one = make(argc);
  if (one == nullptr) return 1;
  drop(one);
  return 0;
}
