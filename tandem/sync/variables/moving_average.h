// sync/moving_average.h: exponential moving averages of parameters: after each step, average = decay x average +
// (1 - decay) x parameter. They begin with the parameters' values.
//
// An average is a copy of its parameter on the CPU, of the same dtype, and takes as much memory. It is updated in that
// dtype.
//
// Threads: caller-locks.
#pragma once
#include <string>
#include <vector>

#include "tandem/model/flat_parameters.h"
#include "tandem/model/state_hash.h"

namespace tandem::sync {

/// Begins the names of averages in the whole state.
inline constexpr const char* kAverages = "averages.";

class MovingAverage {
 public:
  /// Begins with a replica's parameters as they are. `of`: see SyncReplicasOptions::average_of; throws ConfigError
  /// naming what matches no parameter.
  MovingAverage(const model::FlatParameters& parameters, double decay, const std::vector<std::string>& of);

  /// After a step; `values` have the layout of the parameters.
  void update(const std::vector<model::FlatBuffer>& values);
  /// The averages, named kAverages and the parameter's name. The tensors are the live ones, which update() changes.
  [[nodiscard]] const model::NamedTensors& averages() const { return averages_; }

 private:
  struct Place {
    std::size_t buffer = 0, slot = 0;
  };
  const double decay_;
  std::vector<Place> places_;  // of the parameter of each average
  model::NamedTensors averages_;
};

}  // namespace tandem::sync
