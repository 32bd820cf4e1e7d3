// app/tune/knobs.h: what several algorithms let `tandem tune` vary, and values to try.
//
// Threads: free functions on values.
//
// A knob is one option and the texts to try for it, with what another value does to learning. Whether a combination of
// values is valid is not decided here.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tandem/app/config/algorithm.h"

namespace tandem::app {

/// 1, 2, 4, ... and `most` itself.
[[nodiscard]] std::vector<std::string> powers_up_to(std::int64_t most);
/// A half, where that is whole, twice and four times.
[[nodiscard]] std::vector<std::string> around(std::int64_t given);

/// Replicas; the strategies whose numbers are the same; shards; environments. `machine` says which devices and how many
/// cores there are.
[[nodiscard]] Knob devices_knob(const TrainOptions& given, const Machine& machine);
[[nodiscard]] Knob strategy_knob(const TrainOptions& given);
[[nodiscard]] Knob shards_knob(const Machine& machine);
[[nodiscard]] Knob num_envs_knob(const TrainOptions& given);

}  // namespace tandem::app
