// Lets a script drive one of Tandem's native environments and see all of its state, for comparison with gymnasium.
//
//   env_trace ENV COUNT      a group of COUNT environments; reads one command a line, answers each with one JSON line
//     reset SEED...          one seed an environment
//     step ACTION...         one action an environment
//     set ENV ELAPSED X...   puts a state into one environment; no answer
//     spec                   what the environments show and take, the time limit and the threshold (none: an empty
//     list)
//   env_trace random SEED    draws from the generator, one line a kind of draw
//
// Numbers have 17 digits: a float64 comes back as it was.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

#include "tandem/base/error.h"
#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/env/native/classic_group.h"

namespace tandem::rl {
namespace {

template <typename Values>
std::string json_list(const Values& values) {
  std::string text;
  for (const auto value : values) {
    char digits[40];
    std::snprintf(digits, sizeof digits, "%s%.17g", text.empty() ? "" : ",", static_cast<double>(value));
    text += digits;
  }
  return "[" + text + "]";
}

class Trace {
 public:
  explicit Trace(std::unique_ptr<ClassicGroup> group) : group_(std::move(group)), buffers_(*group_) {}

  void run(std::istream& in) {
    for (std::string line; std::getline(in, line);) {
      std::istringstream words(line);
      std::string command;
      words >> command;
      if (command == "reset") {
        group_->reset(read<std::uint64_t>(words), buffers_.arrays());
        answer();
      } else if (command == "step") {
        step(words);
        answer();
      } else if (command == "set") {
        int env = 0, elapsed = 0;
        words >> env >> elapsed;
        group_->set_state(env, read<double>(words), elapsed);
      } else if (command == "spec") {
        answer_spec();
      } else {
        throw ConfigError("unknown command: " + line);
      }
    }
  }

 private:
  template <typename Value>
  static std::vector<Value> read(std::istream& words) {
    std::vector<Value> values;
    for (Value value; words >> value;) values.push_back(value);
    return values;
  }

  void step(std::istream& words) {
    if (std::holds_alternative<Box>(group_->spec().action)) {
      const auto actions = read<float>(words);
      group_->step({.box = actions.data()}, buffers_.arrays());
    } else {
      const auto actions = read<std::int64_t>(words);
      group_->step({.discrete = actions.data()}, buffers_.arrays());
    }
  }

  void answer_spec() const {
    const Spec& spec = group_->spec();
    const Leaf& seen = spec.observation.front();
    std::vector<double> low, high;  // of a Box, or the first and the last action
    if (const auto* box = std::get_if<Box>(&spec.action)) {
      low = box->low;
      high = box->high;
    } else {
      low = {0};
      high = {static_cast<double>(std::get<Discrete>(spec.action).n - 1)};
    }
    std::cout << "{\"shape\":" << json_list(seen.shape) << ",\"low\":" << json_list(finite(seen.low))
              << ",\"high\":" << json_list(finite(seen.high)) << ",\"action_low\":" << json_list(low)
              << ",\"action_high\":" << json_list(high) << ",\"limit\":[" << spec.max_episode_steps
              << "],\"threshold\":"
              << json_list(spec.reward_threshold ? std::vector{*spec.reward_threshold} : std::vector<double>{}) << "}"
              << std::endl;
  }

  // JSON knows no infinity; nor does it matter beyond float32.
  static std::vector<double> finite(std::vector<double> bounds) {
    for (double& bound : bounds) bound = std::clamp(bound, -1e38, 1e38);
    return bounds;
  }

  void answer() const {
    std::vector<double> states, observations, final_observations;
    const auto append = [](std::vector<double>& all, const auto& row) {
      all.insert(all.end(), row.begin(), row.end());
    };
    for (std::size_t e = 0; e < buffers_.rows(); ++e) {
      append(states, group_->state(static_cast<int>(e)));
      append(observations, buffers_.observation<float>(e));
      append(final_observations, buffers_.final_observation<float>(e));
    }
    std::cout << "{\"state\":" << json_list(states) << ",\"observation\":" << json_list(observations)
              << ",\"final_observation\":" << json_list(final_observations)
              << ",\"reward\":" << json_list(buffers_.reward())
              << ",\"terminated\":" << json_list(buffers_.terminated())
              << ",\"truncated\":" << json_list(buffers_.truncated()) << "}" << std::endl;
  }

  std::unique_ptr<ClassicGroup> group_;
  EnvBuffers buffers_;
};

void draw(std::uint64_t seed) {
  NumpyGenerator random(seed);
  for (int i = 0; i < 4; ++i) std::cout << random.next_uint64() << " ";
  for (int i = 0; i < 20; ++i) std::cout << random.integers(0, 10) << " ";
  for (int i = 0; i < 20; ++i) std::cout << random.integers(-7, std::int64_t{3} << 30) << " ";
  for (int i = 0; i < 3; ++i) std::cout << random.integers(0, std::int64_t{1} << 32) << " ";
  for (int i = 0; i < 20; ++i) std::cout << random.integers(-(std::int64_t{1} << 62), std::int64_t{3} << 60) << " ";
  for (const std::int64_t place : random.permutation(100)) std::cout << place << " ";
  std::cout << random.integers(4, 5) << std::endl;
  for (int i = 0; i < 10; ++i) {
    std::printf("%.17g ", random.random());
    std::printf("%.17g ", random.uniform(-0.05, 0.05));
  }
  for (int i = 0; i < 5000; ++i) std::printf("%.17g ", random.normal(0, 3));
  std::printf("\n");
}

int trace(int argc, char** argv) {
  const std::map<std::string, std::function<std::unique_ptr<ClassicGroup>(int)>> makers = {
      {"Acrobot-v1", make_acrobot},
      {"CartPole-v1", make_cartpole},
      {"MountainCar-v0", make_mountain_car},
      {"MountainCarContinuous-v0", make_mountain_car_continuous},
      {"Pendulum-v1", make_pendulum}};
  if (argc == 3 && std::string(argv[1]) == "random") {
    draw(std::strtoull(argv[2], nullptr, 10));
    return 0;
  }
  if (argc != 3 || !makers.contains(argv[1])) {
    std::cerr << "usage: env_trace ENV COUNT | env_trace random SEED\n";
    return 2;
  }
  Trace(makers.at(argv[1])(std::atoi(argv[2]))).run(std::cin);
  return 0;
}

}  // namespace
}  // namespace tandem::rl

int main(int argc, char** argv) {
  try {
    return tandem::rl::trace(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "env_trace: " << error.what() << "\n";
    return 3;
  }
}
