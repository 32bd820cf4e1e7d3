// The program plays two roles. Started by a user, it launches itself once for each number of ranks, with --result, and
// reads the rates from that file; started with --result, it is one of the ranks, of which rank 0 writes the file.
//
// A rank of the simulation has no environments and no model: groups, boards, rules and waits are real, steps and
// learning are slept. Sleeps are of 4 ms or more, so that many ranks fit on few cores; a rank posts its progress and
// decides whether to end when it wakes.
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <thread>

#include "tandem/app/commands/commands.h"
#include "tandem/app/commands/scratch_folder.h"
#include "tandem/app/run/quantity_text.h"
#include "tandem/app/simulate/scale.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/json_writer.h"
#include "tandem/base/text.h"
#include "tandem/comm/world.h"
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

// This rank's part of a simulation of all policies, one after the other. Collective; the same on all ranks. Every wait
// for others ends after two minutes at the latest.
ScalePoint simulate_rank(comm::World& world, const SimulatedWork& work, int updates) {
  SimulatedRank rank(world, work);
  ScalePoint point{.ranks = world.size, .samples_per_s = {}};
  for (const pipeline::Stragglers policy : kPolicies) point.samples_per_s.push_back(rank.run(policy, updates));
  return point;
}

// One of the ranks that the simulation started.
ExitCode be_rank(const SimulateScaleCommand& command) {
  comm::World world = comm::open_world(comm::launcher_environment(), {});
  const ScalePoint point = simulate_rank(world, command.options.work, command.options.updates);
  if (world.rank != 0) return ExitCode::kDone;
  JsonWriter json;
  json.begin_array();
  for (const double rate : point.samples_per_s) json.value(rate);
  json.end_array();
  write_file(command.result, json.text());
  return ExitCode::kDone;
}

// Blocks until the launch has ended. A launch that fails is a RunError: a point that is missing would mislead.
ScalePoint measure(const SimulateScaleCommand& command, std::int64_t ranks) {
  const ScratchFolder scratch("scale");
  const std::filesystem::path result = scratch.path() / "result.json";
  LaunchOptions launch{.ranks = static_cast<int>(ranks),
                       .command = {std::filesystem::read_symlink("/proc/self/exe").string()}};
  launch.command.insert(launch.command.end(), command.arguments.begin(), command.arguments.end());
  launch.command.insert(launch.command.end(), {"--result", result.string()});
  const ExitCode code = run_command(LaunchCommand{std::move(launch)});
  if (code != ExitCode::kDone)
    throw RunError(concat("the ranks of the simulation with ", ranks, " of them ended with ", static_cast<int>(code)));
  ScalePoint point{.ranks = ranks, .samples_per_s = {}};
  const JsonValue rates = read_json_file(result);
  for (const JsonValue& rate : rates.as_array()) point.samples_per_s.push_back(rate.as_double());
  return point;
}

ScalePoint modelled(const ScaleOptions& options, std::int64_t ranks) {
  ScalePoint point{.ranks = ranks, .samples_per_s = {}};
  for (const pipeline::Stragglers policy : kPolicies)
    point.samples_per_s.push_back(model_update(options.work, options.wire, ranks, policy).samples_per_s());
  return point;
}

}  // namespace

ExitCode run_command(const SimulateScaleCommand& command) {
  if (!command.result.empty()) return be_rank(command);
  ScaleFindings findings{.options = command.options, .measured = {}, .modelled = {}};
  for (const std::int64_t ranks : command.options.ranks) {
    if (command.output == Output::kText) std::cerr << "starting " << counted(ranks, "rank") << "\n";
    findings.measured.push_back(measure(command, ranks));
  }
  for (const std::vector<std::int64_t>* numbers : {&command.options.ranks, &command.options.model_ranks}) {
    for (const std::int64_t ranks : *numbers) findings.modelled.push_back(modelled(command.options, ranks));
  }
  std::cout << (command.output == Output::kJson ? to_json(findings) + "\n" : printable(to_text(findings)));
  if (command.options.picture) write_chart(chart_of(findings), *command.options.picture);
  return ExitCode::kDone;
}

}  // namespace tandem::app
