// sync/served_strategy.h: what Asynchronous and SyncReplicas have in common: parameters and optimizer state are shared
// variables in one process, that of replica 0. How a replica gets to them, how all replicas are made equal, and how a
// run ends. The derived strategies say what is done with gradients.
//
// Replicas of replica 0's process call the variables directly, others by messages. Floating buffers (batch norm) are
// each replica's own until begin(), leave() or whole_state() makes them the mean over the replicas.
//
// With a succession (succession.h) each replica has variables, of which those of one replica at a time are the run's;
// otherwise they end with the process of replica 0.
//
// Threads: single-thread, the replica's; abort() from any. Blocking: begin(), leave() and whole_state() wait for all
// replicas until `limits`, as the first step after load_whole_state() does. Errors: those of Strategy and VariableLink.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tandem/comm/group.h"
#include "tandem/sync/replica.h"
#include "tandem/sync/strategy.h"
#include "tandem/sync/variables/succession.h"
#include "tandem/sync/variables/variable_link.h"

namespace tandem::sync {

class ServedStrategy : public Strategy {
 public:
  /// After steps all take the shared variables; before the first one, or after load_whole_state(), those of replica 0.
  void begin(const Limits& limits) override;
  /// The others go on without this replica; returns when all have left, with the same state everywhere. begin() starts
  /// anew.
  void leave(const Limits& limits) override;
  /// Brings every replica to the shared variables, as they are when all have come.
  void agree(const Limits& limits) override { bring_together(limits); }
  /// Brings every replica to the shared variables first, as they are when all have come.
  [[nodiscard]] model::NamedTensors whole_state(const Limits& limits) override;
  /// Replica 0's becomes the shared variables' at the next step, begin(), leave() or whole_state(), which waits for
  /// all.
  void load_whole_state(const model::NamedTensors& state) override;
  void abort(const std::string& why) override;
  [[nodiscard]] std::optional<GradientAccount> take_account() override;

 protected:
  /// Neither `replica` nor `group` is owned; the group's members are the run's replicas in order.
  ServedStrategy(Replica& replica, comm::Group& group) : replica_(replica), group_(group) {}

  /// The variables of a run, from this replica. Called by begin().
  [[nodiscard]] virtual std::shared_ptr<VariableService> make_variables() = 0;
  /// How long a standby that is silent is waited for, where one takes over the variables of at least two processes;
  /// none: the variables end with the process of replica 0. The same on all replicas.
  [[nodiscard]] virtual std::optional<Clock::duration> standby_patience() const { return std::nullopt; }
  /// This replica's copy, in place, of what the variables keep besides parameters and optimizer state.
  [[nodiscard]] virtual model::NamedTensors besides() { return {}; }

  /// Leaves without the group, which may have lost members: returns when all that are there have left, with the same
  /// parameters, optimizer state and besides(). Buffers stay the replica's own.
  void depart(const Limits& limits);

  /// Throws InvariantError before begin() and after leave().
  void require_begun() const;
  /// Before a step: after load_whole_state(), the variables are loaded first.
  void prepare_step(const Limits& limits);
  [[nodiscard]] bool is_running() const { return stage_ == Stage::kRunning; }
  void count_step() { ++steps_; }
  /// Steps of this replica since begin().
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  [[nodiscard]] VariableLink& link() { return *link_; }
  /// This replica's own variables, or without a succession those that it shares its process with; null before begin().
  [[nodiscard]] const std::shared_ptr<VariableService>& service() const { return service_; }
  /// Null where the variables end with the process of replica 0.
  [[nodiscard]] const Succession* succession() const { return succession_.get(); }

  Replica& replica_;
  comm::Group& group_;

 private:
  // Connecting, once, by begin(): to the variables of replica 0, or to all doors of a succession.
  void connect(const Limits& limits);
  void connect_to_one(const std::vector<std::string>& keys, const std::vector<std::string>& hosts,
                      const std::vector<std::string>& names, const Limits& limits);
  void connect_to_all(const std::vector<std::string>& keys, const std::vector<std::string>& hosts,
                      const std::vector<std::string>& names, const Limits& limits);
  // Making all equal; all collective.
  void start_anew(const Limits& limits);
  void bring_together(const Limits& limits);
  void take_variables(const Limits& limits);
  void broadcast(const Limits& limits);
  void average_buffers(const Limits& limits);

  std::shared_ptr<VariableService> service_;
  std::unique_ptr<VariableServer> server_;  // of replica 0, when there are other processes and no succession
  std::unique_ptr<Succession> succession_;
  std::unique_ptr<VariableLink> link_;
  // kNew: not connected. kLoaded: replica 0 holds what the variables are to become.
  enum class Stage { kNew, kLoaded, kRunning, kLeft } stage_ = Stage::kNew;
  std::int64_t steps_ = 0;           // since begin()
  std::int64_t steps_in_place_ = 0;  // of them, when the replicas were last made equal
};

}  // namespace tandem::sync
