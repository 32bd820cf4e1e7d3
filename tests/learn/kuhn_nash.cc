// kuhn_nash FIRST.pt SECOND.pt: how far two exported policies of Kuhn poker are from its equilibrium. Prints the value
// of the game to player_0 and the NashConv, exactly (tandem/rl/env/testing/kuhn_strategy.h), and both strategies.
#include <ATen/ATen.h>
#include <torch/script.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "tandem/rl/env/testing/kuhn_strategy.h"

namespace {

using namespace tandem::rl;
using namespace tandem::rl::testing;

// The policy's first output is its logits; a move that is not allowed has none.
KuhnStrategy strategy_of(const char* file, std::size_t player) {
  torch::jit::Module policy = torch::jit::load(file);
  return kuhn_strategy(player, [&](std::span<const float> observation, std::span<const std::uint8_t> allowed) {
    const at::NoGradGuard no_grad;
    at::Tensor seen = at::empty({1, static_cast<std::int64_t>(observation.size())});
    std::copy(observation.begin(), observation.end(), seen.data_ptr<float>());
    const auto output = policy.forward({seen}).toTuple()->elements();
    at::Tensor logits = output[0].toTensorVector().front()[0].to(at::kDouble).clone();
    for (std::size_t move = 0; move < allowed.size(); ++move) {
      if (allowed[move] == 0) logits[static_cast<std::int64_t>(move)] = -INFINITY;
    }
    const at::Tensor probabilities = logits.softmax(0);
    std::array<double, KuhnPoker::kMoves> result{};
    std::copy_n(probabilities.const_data_ptr<double>(), result.size(), result.begin());
    return result;
  });
}

void print(const char* name, const KuhnStrategy& strategy) {
  std::cout << name << " bets";
  for (const double p : strategy.bet) std::cout << ' ' << p;
  std::cout << ", calls";
  for (const double p : strategy.call) std::cout << ' ' << p;
  std::cout << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "kuhn_nash FIRST.pt SECOND.pt\n";
    return 2;
  }
  const KuhnStrategy first = strategy_of(argv[1], 0), second = strategy_of(argv[2], 1);
  std::cout << "value " << kuhn_value(first, second) << "\nnash_conv " << kuhn_nash_conv(first, second) << '\n';
  print("player_0", first);
  print("player_1", second);
}
