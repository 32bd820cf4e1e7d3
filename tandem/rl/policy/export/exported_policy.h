// rl/policy/export/exported_policy.h: what a file of a policy is made from, and what its inputs are called in it.
//
// Threads: any, while nothing writes to the policy. Ownership: nothing is kept; policy and normalisers are referred to.
#pragma once
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "tandem/rl/policy/normalizer.h"
#include "tandem/rl/policy/policy.h"

namespace tandem::rl {

/// A policy and where it comes from.
struct ExportedPolicy {
  const ActorCritic& policy;
  /// The normalisers are those of the run, or null.
  const Normalizers* normalizers = nullptr;
  /// Names and values that the file tells of its origin, beside those of describe_policy(): the run, the algorithm.
  std::vector<std::pair<std::string, std::string>> facts = {};

  /// Whether the run normalised observations.
  [[nodiscard]] bool is_normalized() const { return normalizers != nullptr && normalizers->options().observations; }
  /// Whether the environment shows this leaf in float64.
  [[nodiscard]] bool is_wide(std::size_t leaf) const { return normalizers != nullptr && normalizers->is_wide(leaf); }
};

/// A name for each leaf of `spec` that is an identifier of C++ and of Python: the leaf's own where it can be, with "_"
/// in the place of other characters; "observation_L" where it has no name, where another leaf has the same, and where
/// files of policies have other use for it (state, mask, action ...).
[[nodiscard]] std::vector<std::string> leaf_names(const Spec& spec);

/// The facts of the export, then version, environment, leaves, action space, family and whether observations are
/// normalised: each a name and a text in one line, printable(), so that it is UTF-8 whatever the names of files are.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> describe_policy(const ExportedPolicy& exported);

}  // namespace tandem::rl
