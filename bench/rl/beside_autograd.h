// bench/rl/beside_autograd.h: the rate of fused kernels on one core, beside autograd and the core's peak, in turn.
#pragma once
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

#include "bench/rl/core_peak.h"
#include "bench/timing.h"

namespace tandem::bench {

template <typename Work>
double seconds_of(const Work& work) {
  const Clock::time_point start = Clock::now();
  work();
  return seconds_since(start);
}

/// Prints the floating-point operations of the networks' products over the seconds for everything, in GFLOP/s.
void print_rate(const std::string& name, const std::string& contender, double multiply_adds,
                std::vector<double> seconds);

/// Measures fused() and definition() for about a second, in turn, since clocks change. `beside` is called with each
/// turn of definition(), for one more contender.
template <typename Fused, typename Definition, typename Beside>
void measure_in_turn(const std::string& name, double multiply_adds, Size size, const Fused& fused,
                     const Definition& definition, const Beside& beside) {
  constexpr double kSecondsOfACase = 1;
  const double warm = seconds_of(fused);
  const int repeat = size == Size::kSmoke ? 5 : repetitions(warm, kSecondsOfACase);
  std::vector<double> kernels, autograd, most;
  for (int i = 0; i < repeat; ++i) {
    kernels.push_back(seconds_of(fused));
    if (i % 5 > 0) continue;
    autograd.push_back(seconds_of(definition));
    beside();
    if (const double rate = core_peak(); rate > 0) most.push_back(multiply_adds / rate);
  }
  print_rate(name, "tandem", multiply_adds, kernels);
  print_rate(name, "autograd", multiply_adds, autograd);
  if (!most.empty()) print_rate(name, "peak", multiply_adds, most);
}

/// Measures a `loss` that can fuse() and differentiate(), which return its value. Returns 1 without measuring when the
/// two differ, else 0.
template <typename Loss>
int measure_loss(const std::string& name, Loss& loss, Size size) {
  const double by_autograd = loss.differentiate(), fused = loss.fuse();
  if (!(std::abs(by_autograd - fused) < 1e-4 * std::max(1.0, std::abs(fused)))) {
    std::cerr << name << ": the loss is " << fused << " in kernels and " << by_autograd << " with autograd\n";
    return 1;
  }
  measure_in_turn(
      name, loss.multiply_adds(), size, [&] { loss.fuse(); }, [&] { loss.differentiate(); }, [] {});
  return 0;
}

}  // namespace tandem::bench
