// rl/rollout/agent_rows.h: one step of the agents of one env group that share a policy: what they see, do and get.
//
// Agents lie one behind the other: row k * environments + e belongs to the policy's k-th agent in environment e.
// Threads: single-thread, as the env group. Owns its memory; arrays handed out live as long as it does.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tandem/rl/env/env_group.h"
#include "tandem/rl/policy/action_family.h"
#include "tandem/rl/policy/actor/actor.h"
#include "tandem/rl/policy/normalizer.h"
#include "tandem/rl/rollout/observation_intake.h"

namespace tandem::rl {

/// The present observations, decisions and results of all agents of one policy in one env group. Row k * envs + e is
/// the policy's k-th agent in environment e.
class AgentRows : public ActedRows {
 public:
  /// `spec`: what each of the agents sees and does. `normalized`: whether observations are normalised. `state_size`: of
  /// a policy that remembers. `remarks`: of ObservationIntake.
  AgentRows(const Spec& spec, std::size_t agents, std::size_t envs, bool normalized = false,
            std::int64_t state_size = 0, std::shared_ptr<Remarks> remarks = {});
  AgentRows(const AgentRows&) = delete;
  AgentRows& operator=(const AgentRows&) = delete;
  AgentRows(AgentRows&&) = default;

  // The tensors are made once; env group and actor write into them in place, and a step overwrites the one before.
  Observation final_observation;                          // as the policy sees it, behind show_final()
  at::Tensor value;                                       // [rows] float32
  at::Tensor state;                                       // [rows, state size] before acting; undefined without
  std::vector<double> reward;                             // [rows]
  std::vector<std::uint8_t> acts, terminated, truncated;  // [rows]

  /// By leaf [rows, ...]: what the env group wrote, which is what the policy sees unless that is normalised or
  /// narrowed.
  [[nodiscard]] const Observation& raw() const { return raw_; }
  [[nodiscard]] std::size_t rows() const { return acts.size(); }
  [[nodiscard]] bool ended(std::size_t row) const { return (terminated[row] | truncated[row]) != 0; }

  /// Has the actor act for all rows. What a policy remembers stays as it was where the agent does not act.
  void act(Actor& actor);

  /// Writes all rows of `observation` from what the env group wrote, which stays as it is, once an env group has
  /// written. Does nothing for leaves of which the policy sees just that; so does show_final(). `frozen`: null where
  /// observations are not normalised. Throws as ObservationIntake::show().
  void show(const Normalizers* frozen);
  /// Writes the row of `final_observation`; once for each that the env group wrote.
  void show_final(const Normalizers* frozen, std::size_t row);
  /// Adds what the agents that act see, as the env group wrote it. Where observations are normalised.
  void gather(NormalizerMoments& moments) const;

  /// Where the env group writes for the policy's k-th agent.
  [[nodiscard]] AgentArrays arrays_of(std::size_t k);
  /// Where an actor writes for all rows.
  /// The pointers stay valid as long as this object, which can be moved but not copied.
  [[nodiscard]] Decisions decisions();
  /// Returns the actions of the k-th agent, after to_bounds() where actions are a Box.
  [[nodiscard]] EnvActions actions_of(std::size_t k) const;
  /// Brings Box actions into the bounds, as the environment takes them.
  void to_bounds();

  /// Copies row by row what belongs to a decision: observation, mask, action, log_prob, value and state.
  /// Raw memory makes one loop copy all types: rows of a contiguous tensor have a fixed number of bytes.
  struct Column {
    std::byte* data;
    std::size_t bytes;  // of a row
  };
  [[nodiscard]] const std::vector<Column>& columns() const { return columns_; }

 private:
  const Spec spec_;
  const std::size_t envs_;
  ObservationIntake intake_;
  // By leaf [rows, ...]: where the env group writes. The same memory as of `observation` where the policy sees just
  // that, and as of `final_observation` unless the leaf is narrowed.
  Observation raw_, raw_final_;
  // [rows, elements]: Box actions within bounds; empty for discrete actions.
  std::vector<float> box_;
  std::vector<Column> columns_;
};

/// Describes the columns of rows in tensors [rows, ...], which outlive the result: first what an agent sees. `value`
/// and `state`: of the rows; the latter may be undefined. Throws InvariantError for a tensor that is not contiguous or
/// has no rows.
void list_columns(const ActedRows& rows, const at::Tensor& value, const at::Tensor& state,
                  std::vector<AgentRows::Column>& columns);
/// Both lists have the same columns in the same order. Rows are not checked against the memory's size.
void copy_row(std::span<const AgentRows::Column> from, std::size_t row, std::span<const AgentRows::Column> to,
              std::size_t to_row);

}  // namespace tandem::rl
