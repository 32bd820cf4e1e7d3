// Lets a script drive an environment with wrappers around, for comparison with gymnasium's.
//
//   wrapper_trace ENV COUNT WRAPPER...   a group of COUNT environments; reads one command a line, answers each with one
//                                        JSON line
//     reset SEED...          one seed an environment
//     step ACTION...         the elements of all actions
//   wrapper_trace seed SEED PLACE        the seed of the generator of the wrapper at that place
//
// Environments are Tandem's own and Film-v0, whose pixels are a formula. Numbers have 17 digits.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>

#include "tandem/base/philox.h"
#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/wrappers/wrapper_list.h"

namespace tandem::rl {
namespace {

// An episode of nine pictures of 210 by 160 pixels; the action decides the next one.
struct Film {
  static constexpr std::size_t kHeight = 210, kWidth = 160;
  using Pixels = std::vector<std::uint8_t>;
  static Spec spec() {
    return {.id = "Film-v0",
            .observation = {{.name = "pixels", .type = ElementType::kUInt8, .shape = {kHeight, kWidth, 3}}},
            .action = Discrete{4}};
  }
  Pixels reset(NumpyGenerator& /*random*/) {
    steps = number = 0;
    return shown();
  }
  StepResult<Pixels> step(std::int64_t action) {
    number = 5 * number + static_cast<std::size_t>(action) + 1;
    return {shown(), static_cast<double>(action), ++steps == 9};
  }
  [[nodiscard]] Pixels shown() const {
    Pixels pixels(kHeight * kWidth * 3);
    for (std::size_t i = 0; i < pixels.size(); ++i)
      pixels[i] = static_cast<std::uint8_t>((i * (2'654'435'761 + 2 * number) % 4'294'967'296) >> 23);
    return pixels;
  }
  std::size_t steps = 0, number = 0;
};

void print(const char* key, std::span<const double> values, const char* end) {
  std::printf("\"%s\":[", key);
  for (std::size_t i = 0; i < values.size(); ++i) std::printf("%s%.17g", i == 0 ? "" : ",", values[i]);
  std::printf("]%s", end);
}

// Every leaf's elements, a row an environment.
std::vector<double> rows_of(const Spec& spec, const EnvBuffers& buffers, bool is_final) {
  std::vector<double> all;
  const auto add = [&all](const auto& row) { all.insert(all.end(), row.begin(), row.end()); };
  for (std::size_t e = 0; e < buffers.rows(); ++e) {
    for (std::size_t l = 0; l < spec.observation.size(); ++l) {
      if (spec.observation[l].type == ElementType::kFloat32) {
        add(is_final ? buffers.final_observation<float>(e, l) : buffers.observation<float>(e, l));
      } else {
        add(is_final ? buffers.final_observation<std::uint8_t>(e, l) : buffers.observation<std::uint8_t>(e, l));
      }
    }
  }
  return all;
}

void answer(const Spec& spec, const EnvBuffers& buffers) {
  const auto doubles = [](std::span<const std::uint8_t> flags) {
    return std::vector<double>(flags.begin(), flags.end());
  };
  std::printf("{");
  print("observation", rows_of(spec, buffers, false), ",");
  print("final_observation", rows_of(spec, buffers, true), ",");
  print("reward", buffers.reward(), ",");
  print("terminated", doubles(buffers.terminated()), ",");
  print("truncated", doubles(buffers.truncated()), "}\n");
  std::fflush(stdout);
}

template <typename Value>
std::vector<Value> read(std::istream& words) {
  std::vector<Value> values;
  for (Value value; words >> value;) values.push_back(value);
  return values;
}

void serve(EnvGroup& group) {
  EnvBuffers buffers(group);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "reset") {
      group.reset(read<std::uint64_t>(words), buffers.arrays());
    } else if (std::holds_alternative<Box>(group.spec().action)) {
      const auto actions = read<float>(words);
      group.step({.box = actions.data()}, buffers.arrays());
    } else {
      const auto actions = read<std::int64_t>(words);
      group.step({.discrete = actions.data()}, buffers.arrays());
    }
    answer(group.spec(), buffers);
  }
}

int trace(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: wrapper_trace ENV COUNT WRAPPER... | wrapper_trace seed SEED PLACE\n";
    return 2;
  }
  if (std::string(argv[1]) == "seed" && argc == 4) {
    std::cout << derive_seed(std::strtoull(argv[2], nullptr, 10), SeedPurpose::kEnvWrapper,
                             std::strtoull(argv[3], nullptr, 10))
              << "\n";
    return 0;
  }
  EnvRegistry environments = EnvRegistry::native();
  environments.add<Film>();
  environments.set_wrappers(argv[1], {argv + 3, argv + argc});
  serve(*environments.make(argv[1], std::atoi(argv[2])));
  return 0;
}

}  // namespace
}  // namespace tandem::rl

int main(int argc, char** argv) {
  try {
    return tandem::rl::trace(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "wrapper_trace: " << error.what() << "\n";
    return 3;
  }
}
