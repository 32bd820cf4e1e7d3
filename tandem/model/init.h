// model/init.h: initial parameters that depend on a seed alone.
//
// torch::nn::init draws from the default generator, and its orthogonal_ goes through LAPACK, whose last bits depend on
// threads. These take their generator and compute in float64 in a fixed order.
//
//   const auto start = derive_seed(seed, SeedPurpose::kParameters, 0);
//   const auto module = build_seeded(start, [&] { return make_policy(spec); });
//
// Threads: each call serves one thread; build_seeded() lets one thread of the process build at a time.
// Weights may lie on any device; the numbers are drawn on the CPU.
#pragma once
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

#include "tandem/base/philox.h"  // derive_seed()

namespace tandem::model {

/// Fills `weight`, seen as [rows, everything else], with a random matrix, uniform among those whose rows (or columns,
/// whichever are fewer) are orthonormal, times `gain`. PPO uses sqrt(2) for hidden layers, 0.01 for the policy's output
/// and 1 for the value's. Saxe, McClelland, Ganguli: arXiv:1312.6120. Throws ConfigError for less than two dimensions.
void init_orthogonal(const at::Tensor& weight, double gain, at::Generator& generator);

/// Fills `weight` and then `bias`, which may be undefined, uniformly within +-1/sqrt(fan in): torch's default for
/// linear and convolution layers. Fan in is the number of inputs of one output. Throws ConfigError for less than two
/// dimensions.
void init_uniform_fan_in(const at::Tensor& weight, const at::Tensor& bias, at::Generator& generator);

/// While it lives, torch's default CPU generator is one seeded with `seed`; then it is again what it was before. Holds
/// a process-wide lock, so threads that build replicas do so one after the other. Numbers that another thread draws
/// from the default generator meanwhile would disturb it.
class SeededDefaultGenerator {
 public:
  explicit SeededDefaultGenerator(std::uint64_t seed);
  ~SeededDefaultGenerator();
  SeededDefaultGenerator(const SeededDefaultGenerator&) = delete;
  SeededDefaultGenerator& operator=(const SeededDefaultGenerator&) = delete;

 private:
  at::Tensor before_;
};

/// Calls `make` and returns what it builds; `seed` decides every number that its modules draw from the default
/// generator.
template <typename Make>
[[nodiscard]] auto build_seeded(std::uint64_t seed, Make&& make) {
  const SeededDefaultGenerator seeded(seed);
  return std::forward<Make>(make)();
}

}  // namespace tandem::model
