// sync/variable_link.h: a replica's way to the shared variables: calls within their process, messages from others.
//
// There are three kinds: link_within() for replicas of the process that holds the variables, link_across() for all
// others, and link_that_follows() (succession.h), which uses one of the two and finds the new owner when the old
// one dies. The replica's flat parameters are where values are read to.
//
// Threads: a link belongs to its replica's thread; abort() from any. Blocking: until `limits`. Errors: those of
// VariableService, wherever the variables lie; PeerLost when their process is gone.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tandem/net/message_client.h"
#include "tandem/sync/replica.h"
#include "tandem/sync/variables/variable_service.h"

namespace tandem::sync {

class VariableLink {
 public:
  virtual ~VariableLink() = default;

  /// Offers the gradient (nullptr: none in this step), waits for the replica's turn, and reads the values into its flat
  /// parameters.
  virtual StepReport exchange(const Offer& offer, const model::FlatParameters::Gradients* gradients,
                              const Limits& limits) = 0;
  /// See VariableService. resume() reads the values, too, and returns their step, where steps are counted.
  virtual void rest(const Limits& limits) = 0;
  virtual std::int64_t resume(const Limits& limits) = 0;
  /// See VariableService. Nothing when the other process does not have the variables.
  [[nodiscard]] virtual std::optional<StepReport> recall(const Recalled& told, const Limits& limits) = 0;
  /// Nobody waits for this replica any more.
  virtual void leave(const Limits& limits) = 0;
  /// Leaves and waits until all have left. Then writes the last state of the variables into `state`, tensors in the
  /// order of state_of() and, behind them, of what else the variables keep. The link is of no further use.
  virtual void depart(const std::vector<at::Tensor>& state, const Limits& limits) = 0;
  /// Ends the waits of the others for this replica.
  virtual void abort(const std::string& why) = 0;
};

/// `replica` is not owned.
[[nodiscard]] std::unique_ptr<VariableLink> link_within(std::shared_ptr<VariableService> variables, Replica& replica);
[[nodiscard]] std::unique_ptr<VariableLink> link_across(const net::ServerAddress& server, Replica& replica,
                                                        const Limits& limits);

}  // namespace tandem::sync
