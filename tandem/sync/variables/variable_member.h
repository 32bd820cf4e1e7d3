// sync/variable_member.h: a replica's part in a run whose variables lie in the process of replica 0: how it gets to
// them, how all replicas are made equal, and how it ends. What is done with gradients is the strategy's and the
// service's.
//
// Replicas of replica 0's process call the variables directly, others by messages. Floating buffers (batch norm) are
// each replica's own until bring_together() or leave() makes them the mean over the replicas.
//
// Threads: single-thread, the replica's; abort() from any. Blocking: begin(), bring_together() and leave() wait for all
// replicas until `limits`, prepare_step() after a load; depart() for those that live. Errors: those of the group and of
// VariableLink.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tandem/comm/group.h"
#include "tandem/sync/replica.h"
#include "tandem/sync/variables/succession.h"
#include "tandem/sync/variables/variable_link.h"
#include "tandem/sync/variables/variable_server.h"

namespace tandem::sync {

class VariableMember {
 public:
  /// Makes the run's variables, from replica 0.
  using MakeService = std::function<std::shared_ptr<VariableService>(Replica& like)>;
  /// Called by replica 0 when the variables have taken its values, before anybody steps.
  using Loaded = std::function<void(VariableService& service)>;
  /// Makes what has the variables go on in another process when theirs dies; `names`: of all replicas.
  using MakeSuccession = std::function<std::unique_ptr<Succession>(const std::shared_ptr<VariableService>& service,
                                                                   const std::vector<std::string>& names)>;
  /// Neither `replica` nor `group` is owned; the group's members are the run's replicas in order. Without
  /// `make_succession` the variables end with the process of replica 0; with it there are at least two processes.
  VariableMember(Replica& replica, comm::Group& group, MakeService make_service, Loaded loaded = {},
                 MakeSuccession make_succession = {});

  /// After steps all take the shared variables; before the first one, or after load(), those of replica 0.
  void begin(const Limits& limits);
  /// Every replica gets the variables as they are when all have come, and the mean buffers. Nothing when nobody stepped
  /// meanwhile.
  void bring_together(const Limits& limits);
  /// The others go on without this replica; returns when all have left, with the same state everywhere.
  void leave(const Limits& limits);
  /// The same without the group, which may have lost members: returns when all that are there have left, with the same
  /// parameters, optimizer state and `also`, which the variables keep besides. Buffers stay the replica's own.
  void depart(const model::NamedTensors& also, const Limits& limits);
  /// Replica 0's becomes the variables' at the next step, begin(), bring_together() or leave().
  /// `also`: what else the state has a part for.
  void load(const model::NamedTensors& state, const model::NamedTensors& also = {});
  /// This replica has failed.
  void abort(const std::string& why);

  /// Throws InvariantError before begin() and after leave().
  void require_begun() const;
  /// Before a step: after load(), the variables are loaded first.
  void prepare_step(const Limits& limits);
  [[nodiscard]] bool is_running() const { return stage_ == Stage::kRunning; }
  /// Between begin() and depart().
  [[nodiscard]] bool is_connected() const { return stage_ != Stage::kNew; }
  void count_step() { ++steps_; }
  /// Of this replica since begin().
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  [[nodiscard]] VariableLink& link() { return *link_; }
  /// Of the replica that owns them: replica 0 unless it died. Null of others, but for those of replica 0's process
  /// without a succession.
  [[nodiscard]] VariableService* service() {
    return succession_ && !succession_->is_owner() ? nullptr : service_.get();
  }
  /// Null where the variables end with the process of replica 0.
  [[nodiscard]] const Succession* succession() const { return succession_.get(); }
  /// See Strategy.
  [[nodiscard]] std::optional<GradientAccount> take_account();

 private:
  // kLoaded: replica 0 holds what the variables are to become.
  enum class Stage { kNew, kLoaded, kRunning, kLeft };
  void connect(const Limits& limits);
  void connect_to_all(const std::vector<std::string>& keys, const std::vector<std::string>& names,
                      const Limits& limits);
  void start_anew(const Limits& limits);
  void take_variables(const Limits& limits);
  void average_buffers(const Limits& limits);
  [[nodiscard]] bool anybody_stepped(const Limits& limits);

  Replica& replica_;
  comm::Group& group_;
  const MakeService make_service_;
  const Loaded loaded_;
  const MakeSuccession make_succession_;
  std::shared_ptr<VariableService> service_;
  std::unique_ptr<VariableServer> server_;  // of replica 0, when there are other processes
  std::unique_ptr<Succession> succession_;  // in place of that
  std::unique_ptr<VariableLink> link_;
  Stage stage_ = Stage::kNew;
  std::int64_t steps_ = 0;           // since begin()
  std::int64_t steps_in_place_ = 0;  // of them, when the replicas were last made equal
};

}  // namespace tandem::sync
