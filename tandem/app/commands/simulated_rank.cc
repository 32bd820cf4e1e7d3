#include "tandem/app/commands/simulated_rank.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <thread>

#include "tandem/comm/world_board.h"

namespace tandem::app {
namespace {

constexpr int kWarmUp = 2;  // updates before those that are measured; kTimeOptimal knows by then what learning takes
constexpr double kShortestSleep = 4;  // ms

using Milliseconds = std::chrono::duration<double, std::milli>;

Limits patience() { return {.deadline = Deadline::after(std::chrono::minutes(2)), .stop = {}}; }

enum class Work { kRollout, kLearning };

class SimulatedRank {
 public:
  SimulatedRank(comm::World& world, const SimulatedWork& work)
      : world_(world),
        work_(work),
        board_(comm::open_board(world, world.size, {world.rank, world.rank + 1}, patience())),
        seed_(derive_seed(static_cast<std::uint64_t>(work.seed), SeedPurpose::kUser,
                          static_cast<std::uint64_t>(world.rank))),
        slowness_(world.size > 1 && world.rank + 1 == world.size ? work.slow_factor : 1),
        gradients_(world.group->allocate(work.parameters, at::kFloat, at::kCPU)) {}

  // Samples a second of all ranks.
  // The slowest rank sets the time: all wait for it in the last sum of gradients.
  double run(pipeline::Stragglers policy, int updates) {
    pipeline::StragglerRule rule({.policy = policy, .sync_frac = work_.sync_frac, .least_frac = work_.least_frac},
                                 board_, work_.steps);
    std::int64_t samples = 0;
    double learn_seconds = 0;
    Clock::time_point start;
    for (int update = 0; update < kWarmUp + updates; ++update) {
      // The clocks of all ranks start together.
      if (update == kWarmUp) {
        samples = 0;
        world_.group->barrier(patience());
        start = Clock::now();
      }
      rule.begin(round_, update > 0 ? std::optional(learn_seconds) : std::nullopt);
      samples += roll_out(rule, update);
      const Clock::time_point learning = Clock::now();
      learn(update);
      learn_seconds = seconds_since(learning);
      ++round_;
    }
    const std::vector<double> mine{static_cast<double>(samples), seconds_since(start)};
    std::vector<double> all(2 * static_cast<std::size_t>(world_.size));
    world_.group->all_gather(mine, all, patience());
    double total = 0, seconds = 0;
    for (std::size_t rank = 0; rank < all.size(); rank += 2) {
      total += all[rank];
      seconds = std::max(seconds, all[rank + 1]);
    }
    return total / seconds;
  }

 private:
  // Costs of an update are the same under every policy.
  // The stream depends on rank, update and kind of work only.
  [[nodiscard]] Philox costs(int update, Work work) const {
    return Philox(seed_, 2 * static_cast<std::uint64_t>(update) + (work == Work::kLearning ? 1 : 0));
  }

  int roll_out(pipeline::StragglerRule& rule, int update) {
    Philox random = costs(update, Work::kRollout);
    const Clock::time_point start = Clock::now();
    double due = 0, slept = 0;  // ms since the start
    for (int steps = 1;; ++steps) {
      due += slowness_ * work_.step.draw_ms(random);
      if (due - slept < kShortestSleep && steps < work_.steps) continue;
      // Sleeps until a time and not for a time, so that late wake-ups do not add up.
      std::this_thread::sleep_until(start + std::chrono::duration_cast<Clock::duration>(Milliseconds(due)));
      slept = due;
      board_.post(world_.rank, {.round = round_, .steps = steps});
      if (!rule.ends(steps)) continue;
      board_.post(world_.rank, {.round = round_, .steps = steps, .finished = true});
      return steps;
    }
  }

  // Learning sleeps, but the sums of gradients are real: each waits for the slowest rank.
  void learn(int update) {
    Philox random = costs(update, Work::kLearning);
    for (int minibatch = 0; minibatch < work_.minibatches; ++minibatch) {
      std::this_thread::sleep_for(Milliseconds(work_.minibatch.draw_ms(random)));
      world_.group->start_all_reduce(gradients_).wait(patience());
    }
  }

  comm::World& world_;
  const SimulatedWork& work_;
  ProgressBoard board_;
  const std::uint64_t seed_;
  const double slowness_;
  const at::Tensor gradients_;
  std::int64_t round_ = 0;
};

}  // namespace

ScalePoint simulate_rank(comm::World& world, const SimulatedWork& work, int updates) {
  SimulatedRank rank(world, work);
  ScalePoint point{.ranks = world.size, .samples_per_s = {}};
  for (const pipeline::Stragglers policy : kPolicies) point.samples_per_s.push_back(rank.run(policy, updates));
  return point;
}

}  // namespace tandem::app
