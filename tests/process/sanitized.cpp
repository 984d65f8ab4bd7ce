// A program for the sanitizers and valgrind: ordinary multithreaded work by default, or one error
// that the tool must still find, named by the first argument.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace {

int Work() {
  std::vector<std::thread> threads;
  std::vector<std::size_t> sums(3);
  for (std::size_t i = 0; i < 3; ++i) {
    threads.emplace_back([i, &sums] {
      std::map<int, std::string> table;
      for (int j = 0; j < 2000; ++j) table[j % 97] += std::to_string(j);
      for (const auto& [key, text] : table) sums[i] += text.size() + static_cast<std::size_t>(key);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<char*> blocks;
  for (std::size_t i = 1; i < 2000; ++i) {
    blocks.push_back(static_cast<char*>(i % 2 == 0 ? std::malloc(i * 10) : std::calloc(i, 10)));
    std::memset(blocks.back(), 1, i * 10);
  }
  for (char*& block : blocks) {
    block = static_cast<char*>(std::realloc(block, 5000));
    if (block == nullptr || block[0] != 1) return 1;
  }
  for (char* block : blocks) std::free(block);
  void* aligned = std::aligned_alloc(256, 1024);
  std::free(aligned);
  std::printf("sum %zu\n", sums[0] + sums[1] + sums[2]);
  return 0;
}

int shared_counter;

int Race() {
  std::thread other([] {
    for (int i = 0; i < 10000; ++i) ++shared_counter;
  });
  for (int i = 0; i < 10000; ++i) ++shared_counter;
  other.join();
  return 0;
}

__attribute__((noinline)) int UseAfterFree() {
  volatile char* block = static_cast<char*>(std::malloc(100));
  block[5] = 1;
  std::free(const_cast<char*>(block));
  return block[5] == 1 ? 3 : 4;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "use-after-free") == 0) return UseAfterFree();
  if (argc > 1 && std::strcmp(argv[1], "race") == 0) return Race();
  return Work();
}
