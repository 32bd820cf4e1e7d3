// sync/succession.h: keeps the variables of SyncReplicas in two processes, so that they outlive one of them. All
// replicas ask the owner. The standby has made every step before there are tokens of the next one. When the owner's
// process dies, the standby becomes the owner, goes on from there, and has another process keep the variables before it
// lets anybody in. docs/decisions/0042 says why so; 0048 compares it with how `tandem train` survives a death.
//
// Each replica of the run has an object of this class: a door at which the others ask, and memory for the variables.
// Replica 0's begins as the owner. The standby is the lowest of the replicas that live on other hosts than the owner,
// or, where there are no other hosts, in other processes of the owner's host. The owner sends it the whole state once,
// and then the sums that each step is made of. When the standby dies within a step, the next one gets the whole state
// before that step counts. Where no other process lives, the owner goes on alone.
//
// A replica is dead when its connections end and its door answers nobody: because its process has died, or because it
// failed. A replica that fails beside others of its process, which ask the variables there without a connection, must
// abort its strategy. So there are never two owners as long as replicas die. A replica that is silent is waited for,
// and a standby that is silent for `patience` fails the run.
//
// Threads: the replica's thread constructs, calls meet(), and destroys; all other members from any thread. Blocking:
// own(), finish() and await_here(), as said there; the destructor waits for no other process. Errors: those of
// VariableLink, and PeerLost where owner and standby have both died.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/mutex.h"
#include "tandem/concurrency/worker.h"
#include "tandem/sync/variables/sync_variables.h"
#include "tandem/sync/variables/variable_link.h"

namespace tandem::sync {

/// Returns what `reach` gives, or nothing when nobody is there (RunError). Passes on DeadlineExceeded, which means that
/// somebody may be there and is silent, and GroupAborted.
template <typename Reach>
auto if_there(const Reach& reach) -> std::optional<decltype(reach())> {
  try {
    return reach();
  } catch (const GroupAborted&) {
    throw;
  } catch (const DeadlineExceeded&) {
    throw;
  } catch (const RunError&) {
    return std::nullopt;
  }
}

class Succession {
 public:
  /// The longest time that a living process takes to answer its door.
  static constexpr Clock::duration kToConnect = std::chrono::seconds(5);

  struct Options {
    int me = 0;                                          // this replica
    net::Access access = net::Reach::kEverywhere;        // where the others are
    std::vector<std::string> names{};                    // of all, for messages
    Clock::duration patience = std::chrono::minutes(1);  // with a standby that is silent
  };
  /// `variables`: this replica's, of the same options everywhere.
  Succession(std::shared_ptr<SyncVariables> variables, Options options);
  ~Succession();

  /// Where this replica is asked, until finish().
  [[nodiscard]] const std::string& contact() const { return server_->contact(); }
  /// Where a replica is asked; the keys of its host (comm/host_map.h) and process, empty when unknown; and its
  /// variables, when it lives in this process.
  struct Door {
    std::string contact, host{}, process{};
    std::shared_ptr<VariableService> variables{};
  };
  /// Tells this replica the doors of all, in order of the replicas. Before any replica calls own().
  void meet(std::vector<Door> doors) {
    const MutexLock lock(mutex_);
    doors_ = std::move(doors);
  }
  /// Makes this replica's variables, as they are now, those of the run. Returns when a standby has them. Called again
  /// after each load.
  void own();
  /// After the replica has left. The owner waits until all that live have left and read the last state; the standby
  /// waits until the owner says so, and takes its place if it dies. Others return at once. The door is shut afterwards.
  void finish(const Limits& limits);

  /// Whether this replica's variables are, or at their end were, the run's.
  [[nodiscard]] bool is_owner() const {
    const MutexLock lock(mutex_);
    return owns_;
  }
  /// The replica that has the newest step besides the owner. Known to the owner only; nothing when nobody else lives.
  [[nodiscard]] std::optional<int> standby() const {
    const MutexLock lock(mutex_);
    return standby_;
  }

  // --- for links that follow ---
  /// Whether a replica has the variables: kHere, kNotHere, or kUndecided from a standby, which has them soon if their
  /// owner is dead; nothing when the replica is not there.
  [[nodiscard]] std::optional<VariableRequest> ask_where(int replica, const Limits& limits) const;
  /// The variables of a replica of this process; null for one of another process.
  [[nodiscard]] std::shared_ptr<VariableService> variables_here(int replica) const {
    const MutexLock lock(mutex_);
    return doors_.at(static_cast<std::size_t>(replica)).variables;
  }
  [[nodiscard]] int size() const { return static_cast<int>(options_.names.size()); }
  [[nodiscard]] net::ServerAddress address(int replica) const;

  /// Returns whether this replica owns the variables. A standby waits until it does, or until the run is over.
  [[nodiscard]] bool await_here(const Limits& limits);

 private:
  // kBystander: neither owner nor standby. kSucceeding: the owner has died, and this process, which was the standby,
  // looks for those that are left. kOver: all have left.
  enum class Role { kBystander, kStandby, kSucceeding, kOwner, kOver };
  void make_step(const KeptRecord& record, const model::FlatParameters::Gradients& sums,
                 const std::function<void()>& here, const std::function<std::vector<at::Tensor>()>& state);

  // The door: requests and ended connections, on its threads.
  [[nodiscard]] std::optional<net::Message> answer(int member, const net::Message& request, const Limits& limits);
  void lose(int member, const std::exception_ptr& why);
  // The standby's part.
  void keep_whole(int owner, const net::Message& message, const Limits& limits);
  void keep_step(const net::Message& message);
  void succeed(int former);
  [[nodiscard]] std::vector<std::shared_ptr<net::Connection>> call_the_roll();
  void watch(const std::shared_ptr<net::Connection>& connection);
  // The owner's part, with the variables' lock.
  void appoint(const KeptRecord& record, const std::vector<at::Tensor>& state);
  [[nodiscard]] std::vector<int> candidates() const;
  void give_whole(const KeptRecord& record, const std::vector<at::Tensor>& state);
  void with_standby(const std::function<void(net::MessageClient& standby)>& exchange);
  [[nodiscard]] PeerLost has_ended() const;
  [[nodiscard]] std::vector<int> of_process_of(int replica) const;
  void set_standby(std::optional<int> standby) {
    const MutexLock lock(mutex_);
    standby_ = standby;
  }
  void become(Role role);
  [[nodiscard]] Role role() const {
    const MutexLock lock(mutex_);
    return role_;
  }
  [[nodiscard]] VariableRequest whereabouts() const;
  [[nodiscard]] Limits within(Clock::duration span) const {
    return {.deadline = Deadline::after(span), .stop = over_.get_token()};
  }
  [[nodiscard]] Limits patience() const { return within(options_.patience); }
  [[nodiscard]] Limits to_connect() const { return within(kToConnect); }

  const std::shared_ptr<SyncVariables> variables_;
  const Options options_;
  std::stop_source over_;
  Mutex keeping_;  // held while a step or state of the owner is taken in
  mutable Mutex mutex_;
  CondVar changed_;
  Role role_ TANDEM_GUARDED_BY(mutex_) = Role::kBystander;
  bool owns_ TANDEM_GUARDED_BY(mutex_) = false;
  int owner_ TANDEM_GUARDED_BY(mutex_) = 0;  // whose standby this replica is
  std::optional<int> standby_ TANDEM_GUARDED_BY(mutex_);
  std::vector<Door> doors_ TANDEM_GUARDED_BY(mutex_);
  std::unique_ptr<net::MessageClient> client_;  // to the standby; used with the variables' lock
  std::set<int> gone_;                          // replicas that cannot be a standby any more; used with that lock
  model::FlatParameters::Gradients sums_;       // of the step to keep; used by the door's thread for the owner
  std::vector<std::unique_ptr<Worker>> watches_ TANDEM_GUARDED_BY(mutex_);
  std::unique_ptr<VariableServer> server_;
};

/// A replica's link that finds the new owner when the old one dies, says there what the replica knows of its gradients,
/// and goes on. A gradient that was under way counts as the new owner knows: applied, dropped (by at least a step), or,
/// if nobody can know, Verdict::kLost. Neither argument is owned, and both outlive the link. To be made while replica 0
/// owns the variables. Errors: as VariableLink; PeerLost where the standby has died, too.
[[nodiscard]] std::unique_ptr<VariableLink> link_that_follows(Succession& succession, Replica& replica,
                                                              const Limits& limits);

}  // namespace tandem::sync
