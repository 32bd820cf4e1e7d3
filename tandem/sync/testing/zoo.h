// sync/testing/zoo.h: trains a model twice, by a plain LibTorch loop on all rows and as the ranks of DataParallel, and
// says where they differ.
//
// Threads: train_alone() runs before the ranks' threads start.
#pragma once
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tandem/base/text.h"
#include "tandem/device/one_core.h"
#include "tandem/sync/testing/data_parallel_ranks.h"

namespace tandem::sync::zoo {

using at::Tensor;

/// A network that trains. Its losses are means over the same rows [n, 4], and are added.
struct Player {
  std::shared_ptr<torch::nn::Module> net;
  std::vector<std::function<Tensor(const Tensor& rows)>> losses;
};

/// How parameters are updated: by LibTorch, and by DataParallel::step() where it has the same rule.
struct Rule {
  std::function<std::unique_ptr<torch::optim::Optimizer>(const std::vector<Tensor>&)> plain;
  std::optional<model::OptimizerOptions> fused{};
  enum class Asks { kOnce, kRepeatedly } asks = Asks::kOnce;  // for the loss: kRepeatedly by a closure
};

struct Animal {
  std::string name;
  std::function<std::vector<Player>()> build;  // the same numbers each time; several players take turns
  Rule rule;
  double allowed = 1e-6;  // the greatest difference of an element
};

inline void PrintTo(const Animal& animal, std::ostream* out) { *out << animal.name; }

constexpr int kZooSteps = 4;

/// How many rows a rank has in a step, from 1 to 6. The last rank has none in step 1.
inline std::int64_t count_of_rows(int rank, int size, int step) {
  return step == 1 && rank == size - 1 ? 0 : 1 + 2 * rank + step % 2;
}

/// They lie between -1 and 1; column 3 is positive in the last rank's alone.
inline Tensor rows_of(int rank, int size, int step) {
  const std::int64_t count = count_of_rows(rank, size, step);
  Tensor rows = torch::sin(torch::arange(count * 4, torch::kFloat).square() * 0.7 + 10 * rank + 3 * step);
  rows = rows.view({count, 4});
  rows.select(1, 3).fill_(rank == size - 1 ? 0.8 : -0.6);
  return rows;
}

inline Tensor rows_of_all(int size, int step) {
  std::vector<Tensor> all;
  for (int rank = 0; rank < size; ++rank) all.push_back(rows_of(rank, size, step));
  return torch::cat(all);
}

/// A tensor that has several names once: LibTorch's optimizers update it as often as they are handed it.
inline std::vector<Tensor> distinct_parameters(const torch::nn::Module& net) {
  std::vector<Tensor> distinct;
  for (const Tensor& parameter : net.parameters()) {
    if (std::ranges::none_of(distinct, [&](const Tensor& other) { return other.is_same(parameter); }))
      distinct.push_back(parameter);
  }
  return distinct;
}

/// The plain loop.
inline std::vector<Player> train_alone(const Animal& animal, int size) {
  std::vector<Player> players = animal.build();
  std::vector<std::unique_ptr<torch::optim::Optimizer>> optimizers;
  for (const Player& player : players) optimizers.push_back(animal.rule.plain(distinct_parameters(*player.net)));
  for (int step = 0; step < kZooSteps; ++step) {
    const Tensor rows = rows_of_all(size, step);
    for (std::size_t p = 0; p < players.size(); ++p) {
      const auto pass = [&] {
        optimizers[p]->zero_grad();
        Tensor sum = torch::zeros({});
        for (const auto& loss : players[p].losses) sum = sum + loss(rows);
        sum.backward();
        return sum;
      };
      if (animal.rule.asks == Rule::Asks::kRepeatedly) {
        optimizers[p]->step(pass);
      } else {
        pass();
        optimizers[p]->step();
      }
    }
  }
  return players;
}

inline void make_passes(DataParallel& parallel, const Player& player, const Tensor& rows) {
  if (rows.size(0) == 0) return parallel.skip();
  Pass pass{.rows = static_cast<double>(rows.size(0))};
  for (const auto& loss : player.losses) {
    if (&loss == &player.losses.back())
      parallel.backward(loss(rows), pass);
    else
      parallel.accumulate(loss(rows), pass);
    pass.counted = Pass::Counted::kSame;
  }
}

enum class Update { kPlain, kFused };

/// The same loop as one of several ranks, with the rows of this one.
inline std::vector<Player> train_as_rank(const Animal& animal, Update update, comm::Group& group) {
  device::use_one_core();
  std::vector<Player> players = animal.build();
  std::vector<std::unique_ptr<torch::optim::Optimizer>> optimizers;
  std::vector<std::unique_ptr<DataParallel>> parallels;
  DataParallelOptions options = without_optimizer();
  if (update == Update::kFused) options.optimizer = {animal.rule.fused.value()};
  for (const Player& player : players) {
    optimizers.push_back(animal.rule.plain(distinct_parameters(*player.net)));
    parallels.push_back(std::make_unique<DataParallel>(player.net, group, options));
  }
  for (int step = 0; step < kZooSteps; ++step) {
    const Tensor rows = rows_of(group.rank(), group.size(), step);
    for (std::size_t p = 0; p < players.size(); ++p) {
      if (animal.rule.asks == Rule::Asks::kRepeatedly) {
        const auto loss = [&] { return rows.size(0) > 0 ? players[p].losses.front()(rows) : Tensor(); };
        optimizers[p]->step(parallels[p]->closure(loss, static_cast<double>(rows.size(0))));
        continue;
      }
      make_passes(*parallels[p], players[p], rows);
      if (update == Update::kFused) {
        parallels[p]->step();
      } else {
        parallels[p]->average();
        optimizers[p]->step();
      }
    }
  }
  for (const auto& parallel : parallels) parallel->require_same_state();
  return players;
}

/// How far the furthest element of a tensor is from the other's; infinity where one is not finite.
inline double distance(const Tensor& one, const Tensor& other) {
  const at::NoGradGuard no_grad;
  const double most = (one.to(torch::kDouble) - other.to(torch::kDouble)).abs().max().item<double>();
  return std::isfinite(most) ? most : INFINITY;
}

/// The parameters and buffers that differ by more than `allowed`, and by how much.
inline std::string differences(const std::vector<Player>& players, const std::vector<Player>& expected,
                               double allowed) {
  std::string all;
  for (std::size_t p = 0; p < players.size(); ++p) {
    const auto look = [&](const auto& tensors, const auto& reference) {
      for (const auto& entry : tensors) {
        const double apart = distance(entry.value(), reference[entry.key()]);
        if (apart > allowed) all += concat("player ", p, " ", entry.key(), " by ", apart, "; ");
      }
    };
    look(players[p].net->named_parameters(), expected[p].net->named_parameters());
    look(players[p].net->named_buffers(), expected[p].net->named_buffers());
  }
  return all;
}

}  // namespace tandem::sync::zoo
