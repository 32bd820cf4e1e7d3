// app/config/policy_keys.h: the keys of policies: policy.KEY, of all policies of a run, and policies.NAME.KEY, of one
// of several, where that one is to differ.
//
//   policy: {hidden: [64, 64]}
//   policies:
//     hunter: {hidden: [128, 128], head: squashed_normal}
//
// Keys that concern the rollouts and the learner, and not the module, are the same for all policies: sde_sample_freq,
// max_seq_len and burn_in.
//
// Threads: free functions on values. Whether the run has a policy of that name is not checked here: that needs the
// environment (train/multi_agent.cc).
#pragma once
#include <string>
#include <vector>

#include "tandem/app/config/algorithm.h"
#include "tandem/app/config/option_table.h"
#include "tandem/app/config/train_options.h"

namespace tandem::app {

/// Adds the keys of the section `policy`.
void add_policy_keys(OptionTable& table, PolicySettings& policy);
/// Adds the family of the section `policies`, and its options that `options` has values of. To be added last: the
/// options of a section follow each other, and more of this one may come.
void add_policies_keys(OptionTable& table, TrainOptions& options);

/// The settings of the policy of this name: those of all with its own in their place. One agent's policy has the
/// name "".
[[nodiscard]] PolicySettings settings_of_policy(const TrainOptions& options, const std::string& name);

/// Whether a policy of the run may remember, that is, all do or the setting of a single one says so.
[[nodiscard]] bool any_remembers(const TrainOptions& options);

/// Adds a fault for each setting of a single policy that was asked for and does nothing beside its others.
void check_policies_effects(Rules& rules);

/// Adds a fault for each policy whose layers cannot fit into this machine's memory, by arithmetic alone.
void check_policies_sizes(Rules& rules);

}  // namespace tandem::app
