// A program of another project that knows environments and no LibTorch.
#include <tandem/rl/env/env_concepts.h>

#include <cstdio>
#include <fstream>
#include <string>

int main() {
  const tandem::rl::Leaf leaf{.shape = {2, 3}};
  std::printf("%s has %lld elements\n", tandem::rl::describe(leaf).c_str(), static_cast<long long>(leaf.count()));
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("torch") != std::string::npos && line.find(".so") != std::string::npos) return 2;
  }
  return leaf.count() == 6 ? 0 : 1;
}
