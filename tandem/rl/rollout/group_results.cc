#include "tandem/rl/rollout/group_results.h"

#include <algorithm>

#include "tandem/base/check.h"

namespace tandem::rl {
namespace {

// Cuts `count` numbers off the front.
std::span<const double> take(std::span<const double>& numbers, std::size_t count) {
  TANDEM_CHECK(numbers.size() >= count, numbers.size(), " numbers left of the groups' results, expected ", count);
  const std::span<const double> first = numbers.first(count);
  numbers = numbers.subspan(count);
  return first;
}

void read(std::span<const double>& numbers, RunningMoments& moments) {
  moments.set_numbers(take(numbers, 1 + 2 * moments.size()));
}

void read(std::span<const double>& numbers, std::size_t metrics, std::vector<Episode>& episodes) {
  const auto count = static_cast<std::size_t>(take(numbers, 1).front());
  for (std::size_t i = 0; i < count; ++i) {
    const std::span<const double> its = take(numbers, 4);
    const std::span<const double> measured = take(numbers, metrics);
    episodes.push_back({.episode_return = its[0],
                        .length = static_cast<std::int64_t>(its[1]),
                        .step = static_cast<int>(its[2]),
                        .row = static_cast<int>(its[3]),
                        .metrics = {measured.begin(), measured.end()}});
  }
}

}  // namespace

void GroupResults::clear() {
  episodes.clear();
  for (OfPolicy& policy : policies) {
    policy.episodes.clear();
    policy.decisions = policy.most_pieces = 0;
  }
}

void append_episodes(const std::vector<Episode>& episodes, std::vector<double>& numbers) {
  numbers.push_back(static_cast<double>(episodes.size()));
  for (const Episode& episode : episodes) {
    numbers.insert(numbers.end(), {episode.episode_return, static_cast<double>(episode.length),
                                   static_cast<double>(episode.step), static_cast<double>(episode.row)});
    numbers.insert(numbers.end(), episode.metrics.begin(), episode.metrics.end());
  }
}

// The reader must know the sizes: the numbers do not say where the moments of a leaf end.
void take_results(std::span<const double> numbers, std::span<NormalizerMoments> memory,
                  std::span<Normalizers> normalizers, GroupResults& results) {
  TANDEM_CHECK(memory.size() == normalizers.size(), memory.size(), " moments for ", normalizers.size(), " normalisers");
  while (!numbers.empty()) {
    for (std::size_t seat = 0; seat < memory.size(); ++seat) {
      for (RunningMoments& leaf : memory[seat].observation) read(numbers, leaf);
      read(numbers, memory[seat].discounted_return);
      normalizers[seat].merge(memory[seat]);
    }
    read(numbers, results.metrics, results.episodes);
    for (GroupResults::OfPolicy& policy : results.policies) {
      read(numbers, 0, policy.episodes);
      const auto decisions = static_cast<std::int64_t>(take(numbers, 1).front());
      policy.decisions += decisions;
      policy.most_pieces = std::max(policy.most_pieces, static_cast<std::int64_t>(take(numbers, 1).front()));
    }
  }
}

}  // namespace tandem::rl
