#include "tandem/app/config/strategy_options.h"

namespace tandem::app {
namespace {

void of_strategy(const char* strategy, Option& option) {
  option.only_with("strategy", strategy).lives(Lifetime::kPart);
}

void add_parameter_server_options(OptionTable& table, ParameterServerSettings& settings) {
  const char* strategy = "parameter_server";
  of_strategy(strategy, table.add("parameter_server.servers", settings.servers,
                                  "Replicas that update variables: all, each some of them by least load in bytes; "
                                  "first, the first one all."));
  of_strategy(strategy,
              table.add("parameter_server.variables", settings.variables,
                        "Where they lie with their optimizer state: devices, on their server's; cpu, in the host's "
                        "memory, which spares CUDA devices that state (not of sparse tables); each step waits for two "
                        "copies, and has the CPU's bits."));
}

void add_asynchronous_options(OptionTable& table, AsynchronousSettings& asynchronous) {
  const char* strategy = "asynchronous";
  of_strategy(strategy, table.add("asynchronous.scaling", asynchronous.scaling,
                                  "by_replicas: a replica's gradient counts 1/N of N replicas; none: in full."));
  of_strategy(strategy, table
                            .add("asynchronous.wait_for_slower", asynchronous.wait_for_slower,
                                 "Most steps that a replica may be ahead of the slowest; then it waits.")
                            .within(0, kLargestCount)
                            .instead_of("asynchronous.drop_staler"));
  of_strategy(strategy,
              table
                  .add("asynchronous.drop_staler", asynchronous.drop_staler,
                       "A gradient is dropped when more updates than this were made since its parameters were read.")
                  .within(0, kLargestCount)
                  .instead_of("asynchronous.wait_for_slower"));
}

void add_sync_replicas_options(OptionTable& table, SyncReplicasSettings& sync_replicas) {
  const char* strategy = "sync_replicas";
  of_strategy(
      strategy,
      table
          .add("sync_replicas.replicas_to_aggregate", sync_replicas.replicas_to_aggregate,
               "Gradients of a step; fewer than replicas: what comes later is dropped; more: each gives several.")
          .within(1, kLargestCount)
          .absent_as("all"));
  of_strategy(strategy,
              table.add("sync_replicas.acceptance", sync_replicas.acceptance,
                        "whole: a step is the mean over rows of the first gradients, each with all its parameters; "
                        "per_variable: over gradients, of each parameter on its own, as in TensorFlow."));
  of_strategy(
      strategy,
      table.add("sync_replicas.sparse_mean", sync_replicas.sparse_mean,
                "by_count: rows of sparse gradients are divided as all others; by_index: by those that have them."));
  of_strategy(strategy, table.add("sync_replicas.tokens", sync_replicas.tokens,
                                  "Who may compute for a step: own, each replica once; shared, whoever comes first."));
  of_strategy(strategy, table
                            .add("sync_replicas.initial_tokens", sync_replicas.initial_tokens,
                                 "Of tokens: shared, for the first step, beside one gradient of each replica.")
                            .within(0, kLargestCount)
                            .absent_as("as_aggregated"));
  of_strategy(strategy,
              table.add("sync_replicas.rate_scaling", sync_replicas.rate_scaling,
                        "by_gradients: a step of fewer gradients than usual has a learning rate as much lower."));
  of_strategy(strategy, table
                            .add("sync_replicas.max_replica_grad_norm", sync_replicas.max_replica_grad_norm,
                                 "Each replica's gradient is scaled down to this norm, before the mean is formed.")
                            .above(0));
  of_strategy(
      strategy,
      table
          .add("sync_replicas.average_decay", sync_replicas.average_decay,
               "Keeps moving averages of the parameters in checkpoints: average = decay x average + (1 - decay) x "
               "parameter.")
          .within(0, 0.999999999));
  of_strategy(strategy, table.add("sync_replicas.average_of", sync_replicas.average_of,
                                  "Parameters that are averaged, or what their names begin with; empty: all."));
}

}  // namespace

void add_strategy_options(OptionTable& table, TrainOptions& options) {
  add_parameter_server_options(table, options.parameter_server);
  add_asynchronous_options(table, options.asynchronous);
  add_sync_replicas_options(table, options.sync_replicas);
}

}  // namespace tandem::app
