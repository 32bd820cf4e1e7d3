// app/tune/tune_options.h: what `tandem tune` is asked to try.
//
// Plain values.
#pragma once
#include <array>
#include <filesystem>
#include <vector>

#include "tandem/app/config/choices.h"

namespace tandem::app {

/// Options that decide how the work of a run is laid out.
enum class Vary { kDevices, kStrategy, kLoaders, kShards, kWorkers, kNumEnvs, kMinibatch };

struct TuneOptions {
  std::vector<Vary> vary = {};  // empty: all that leave what is learned as it is
  int rounds = 5;               // measured runs of a layout, after which its median counts
  double seconds = 1;           // that a run of the given layout takes, about
  std::filesystem::path output = "tuned.yaml";
};

template <>
struct Choices<Vary> {
  static constexpr std::array kAll{
      Choice<Vary>{Vary::kDevices, "devices"},    Choice<Vary>{Vary::kStrategy, "strategy"},
      Choice<Vary>{Vary::kLoaders, "loaders"},    Choice<Vary>{Vary::kShards, "shards"},
      Choice<Vary>{Vary::kWorkers, "workers"},    Choice<Vary>{Vary::kNumEnvs, "num_envs"},
      Choice<Vary>{Vary::kMinibatch, "minibatch"}};
};

}  // namespace tandem::app
