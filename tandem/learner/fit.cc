#include "tandem/learner/fit.h"

#include <exception>

#include "tandem/base/clock.h"
#include "tandem/base/error.h"
#include "tandem/base/philox.h"
#include "tandem/base/text.h"
#include "tandem/comm/store/launcher_environment.h"
#include "tandem/device/device_set.h"
#include "tandem/model/init.h"

namespace tandem::learner {
namespace {

// Makes one pass over the loaded rows on every replica. Loss and time are those of replica 0 of this process; the
// counts of rows come from the plan, which is the same on every replica.
EpochReport run_epoch(ReplicaTeam& team, const FitOptions& options, const FitFunctions& functions) {
  EpochReport report;
  const Clock::time_point start = Clock::now();
  team.run([&](Member& member) {
    const LossFunction loss = [&](const ShardBatch& batch) {
      return ShardLoss{.loss = functions.loss(member.replica.module(), batch),
                       .weight = static_cast<double>(batch.valid_rows)};
    };
    member.learner.begin_pass(options.order);
    const std::int64_t minibatches = member.learner.batch().plan().minibatches;
    double sum = 0;
    for (std::int64_t b = 0; b < minibatches; ++b) {
      const Limits limits{.deadline = Deadline::after(options.team.patience), .stop = member.lost};
      sum += member.learner.step(b, loss, 1.0, limits).step.loss;
    }
    if (member.replica.placement().local == 0) report.loss = sum / static_cast<double>(minibatches);
  });
  // For who looks at the module in on_epoch. In a run of its own, since all replicas rest at the end of one: who waits
  // in a collective gives no gradients to those that still make steps.
  team.run([&](Member& member) {
    member.strategy.agree({.deadline = Deadline::after(options.team.patience), .stop = member.lost});
  });
  const double seconds = seconds_since(start);
  const Member first = team.member(0);
  const LoadPlan& plan = first.learner.batch().plan();  // of all shards, and so the same on every replica
  report.rows_per_s = static_cast<double>(plan.used) / seconds;
  report.offered = plan.offered;
  report.used = plan.used;
  report.dropped = plan.dropped;
  report.padded = plan.padded;
  report.notice = plan.notice;
  return report;
}

// Builds the replicas from one seed, loads the rows once, and makes all passes. Returns the module of this process's
// first replica.
std::shared_ptr<torch::nn::Module> train(const FitOptions& options, const Columns& rows, const FitFunctions& functions,
                                         const Ranks& ranks) {
  const std::uint64_t seed = derive_seed(options.team.run_seed, SeedPurpose::kParameters, 0);
  std::shared_ptr<torch::nn::Module> first;
  const auto build = [&](const sync::Placement& placement) {
    auto module = model::build_seeded(seed, functions.build);
    if (!module) throw ConfigError("fit(): build() returned no module");
    module->to(placement.device);
    if (placement.local == 0) first = module;
    return module;
  };
  ReplicaTeam team(ranks.place(device::parse_device_set(options.devices), options.shards), options.team, build, ranks);
  team.run([&](Member& member) {
    (void)member.learner.batch().load({.columns = rows, .states = {}}, options.minibatch_rows, options.tail);
  });
  for (std::int64_t epoch = 1; epoch <= options.epochs; ++epoch) {
    EpochReport report = run_epoch(team, options, functions);
    report.epoch = epoch;
    if (functions.on_epoch) functions.on_epoch(report);
  }
  (void)team.state();  // makes the replicas equal, which they are not under asynchronous or sync_replicas
  return first;
}

}  // namespace

Ranks ranks_of_single_process() {
  constexpr const char* kRemedy =
      "\n    const comm::World world = comm::open_world(comm::launcher_environment(), {});"
      "\n    fit(options, rows, build, loss, on_epoch, learner::Ranks(world.group));"
      "\nFor a loop of your own there are sync::DataParallel and learner::ReplicaTeam. To train a model in each "
      "process "
      "on purpose, pass learner::Ranks().";
  comm::LauncherEnvironment me;
  try {
    me = comm::launcher_environment();
  } catch (const ConfigError& error) {
    throw ConfigError(concat("fit() was given no ranks, and cannot tell whether this process is one of several: ",
                             error.what(), "\nPass them, or learner::Ranks() for this process alone:", kRemedy));
  }
  if (me.world_size == 1) return Ranks();
  const char* variable = me.launcher == comm::Launcher::kOpenMpi ? "OMPI_COMM_WORLD_SIZE"
                         : me.launcher == comm::Launcher::kSlurm ? "SLURM_NTASKS"
                                                                 : "WORLD_SIZE";
  throw ConfigError(
      concat("fit() was given no ranks, and this process is rank ", me.rank, " of ", me.world_size, " (", variable,
             " = ", me.world_size, ", set by ", comm::name_of(me.launcher),
             "): each would train a model of its own. For one model over all of them, pass the ranks:", kRemedy));
}

std::shared_ptr<torch::nn::Module> fit_module(const FitOptions& options, const Columns& rows,
                                              const FitFunctions& functions, const Ranks& ranks) {
  if (options.epochs < 1) throw ConfigError(concat("fit(): epochs is ", options.epochs, "; at least 1"));
  if (rows.empty()) throw DataError("fit(): no columns; give what the loss reads, {{\"x\", x}, {\"y\", y}}");
  try {
    return train(options, rows, functions, ranks);
  } catch (const std::exception& error) {
    ranks.abort(error.what());
    throw;
  }
}

}  // namespace tandem::learner
