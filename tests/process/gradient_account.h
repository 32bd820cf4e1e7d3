// What became of the gradients of a training whose variables lie in one process: do those who gave them, and the
// process that took them, say the same?
//
// Threads: single-thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tandem::process_test {

/// What the recipe of a run makes it do, by counting and not by asking the run.
struct ExpectedGradients {
  std::size_t replicas = 4;
  std::int64_t of_each = 0;         // replica: updates x epochs x minibatches
  std::int64_t most_in_flight = 0;  // when the run ends, of all replicas: accepted for a step that is not made
};

/// offered = applied + dropped + in flight, for every replica and for the steps that were made; `shown`: what the run
/// printed, its table included.
void expect_accounted_for(const std::filesystem::path& folder, const ExpectedGradients& expected,
                          const std::string& shown);

/// Of all replicas, as they told them; from summary.json.
[[nodiscard]] std::int64_t dropped_in(const std::filesystem::path& folder);

/// The optimizer of the newest checkpoint must have made as many steps as all lines of metrics.jsonl say together.
void expect_steps_of_all_updates(const std::filesystem::path& folder);

}  // namespace tandem::process_test
