// learner/fit.h: trains a model on rows that are in memory, on the replicas of a process or of all ranks, in one call.
// For other steps than these, write a loop with learner/replica_team.h, of which fit() is made.
//
//     const auto build = [] { return torch::nn::Linear(8, 1); };
//     const auto loss = [](auto& net, const ShardBatch& rows) { return torch::mse_loss(net(rows["x"]), rows["y"]); };
//     const auto net = fit({.devices = "cpu:2", .shards = 2}, {{"x", x}, {"y", y}}, build, loss);
//
// Threads: from one; `build` and `loss` are called on the replicas' threads, one replica's model each, `on_epoch` on
// the caller's. Blocking: until all epochs are done. Errors: ConfigError and DataError before the first step, RunError
// from one, and what `build`, `loss` or `on_epoch` throw; then the waits of all ranks end. A minibatch that the rows
// cannot fill, or the shards do not divide, is no error: each EpochReport says what became of it, and of every row. The
// numbers do not depend on the devices, only on `shards` and the options.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>

#include "tandem/learner/replica_team.h"

namespace tandem::learner {

/// Ranks give the same counts, because they make the same steps.
struct FitOptions {
  std::string devices = "cpu:1";      // as device::parse_device_set() reads it
  int shards = 1;                     // parts of a minibatch; a multiple of the replicas
  std::int64_t minibatch_rows = 256;  // of a step, over all shards
  std::int64_t epochs = 10;           // passes over the rows
  Order order = Order::kShuffled;
  Tail tail = Tail::kDrop;  // what becomes of rows that fill no minibatch
  TeamOptions team{.optimizer = {model::AdamOptions{}}};
};

/// One pass over the rows: loss and time as replica 0 of this process saw them, counts of rows over the whole run, the
/// same on every rank.
struct EpochReport {
  std::int64_t epoch = 0;  // from 1
  double loss = 0;         // mean over its steps, each before its update
  double rows_per_s = 0;   // over all shards
  std::int64_t offered = 0, used = 0, dropped = 0,
               padded = 0;  // rows, as LoadPlan counts them
  std::string notice;       // when steps have another number of rows than minibatch_rows: how many, and why; else empty
};

/// The functions of fit(), without the type of the model. They are called as the functions of fit() are; `on_epoch` may
/// be empty.
struct FitFunctions {
  std::function<std::shared_ptr<torch::nn::Module>()> build;
  std::function<at::Tensor(torch::nn::Module&, const ShardBatch&)> loss;
  std::function<void(const EpochReport&)> on_epoch;
};
/// The ranks of a fit() that was given none: this process alone. Throws ConfigError when a launcher has started several
/// (comm/store/launcher_environment.h), because each would then train a model of its own.
[[nodiscard]] Ranks ranks_of_single_process();
/// Returns the module of this process's first replica.
[[nodiscard]] std::shared_ptr<torch::nn::Module> fit_module(const FitOptions& options, const Columns& rows,
                                                            const FitFunctions& functions, const Ranks& ranks);

/// Builds a model for each replica (all with the same values, drawn from the run's seed), trains them and returns one,
/// on the first device. `rows`: [rows, ...] tensors with the same number of rows, all rows on every rank; each shard
/// takes its part. `build()` returns a std::shared_ptr to a module, or its holder. `loss(net, rows)` returns the mean
/// over the shard's rows, a scalar; `net` is the module that `build` made. Under Tail::kPad only the first
/// `rows.valid_rows` rows may count.
///
/// Several processes train one model when each passes the ranks; `shards` is then a multiple of all their replicas:
///     const comm::World world = comm::open_world(comm::launcher_environment(), {});
///     fit(options, rows, build, loss, on_epoch, Ranks(world.group));
/// Without `ranks`, a process that a launcher has started as one of several gets a ConfigError: each would train a
/// model of its own. Where that is wanted, pass Ranks(), a single process.
template <typename Build, typename Loss>
[[nodiscard]] auto fit(const FitOptions& options, const Columns& rows, const Build& build, const Loss& loss,
                       const std::function<void(const EpochReport&)>& on_epoch = {},
                       const std::optional<Ranks>& ranks = std::nullopt) {
  const auto made = [&] {
    if constexpr (requires { build().ptr(); })
      return build().ptr();
    else
      return build();
  };
  // fit_module() knows torch::nn::Module only; the casts bring back the type that `build` made.
  using Module = typename std::invoke_result_t<decltype(made)>::element_type;
  const FitFunctions functions{
      .build = made,
      .loss = [&](torch::nn::Module& net, const ShardBatch& batch) { return loss(dynamic_cast<Module&>(net), batch); },
      .on_epoch = on_epoch};
  return std::dynamic_pointer_cast<Module>(
      fit_module(options, rows, functions, ranks ? *ranks : ranks_of_single_process()));
}

}  // namespace tandem::learner
