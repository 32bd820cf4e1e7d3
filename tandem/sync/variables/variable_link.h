// sync/variable_link.h: a replica's way to the shared variables: calls within their process, messages from others; and
// the server of these messages, which the owner of the variables and its standby send each other, too.
//
// There are three kinds: link_within() for replicas of the process that holds the variables, link_across() for all
// others, and link_that_follows() (succession.h), which uses one of the two and finds the new owner when the old
// one dies. The replica's flat parameters are where values are read to.
//
// Threads: a link belongs to its replica's thread; abort() from any. Blocking: until `limits`. Errors: those of
// VariableService, wherever the variables lie; PeerLost when their process is gone.
//
//     request      carries                          answered by
//     kExchange    Offer, gradient or nothing       kValues: StepReport, values
//     kRest        nothing                          kDone
//     kResume      nothing                          kValues, or kDone where the replica holds the values already
//     kLeave       nothing                          kDone
//     kDepart      nothing                          kState: all tensors; the client then hangs up
//     kWhere       nothing                          kHere, kNotHere or kUndecided
//     kRecall      Recalled                         kFate: StepReport, or kNotHere
//     kKeepWhole   record, all tensors              kDone, when the standby has them
//     kKeepStep    record, sums of the step         kDone, when the standby has made the step
//     kKeepEnd     nothing                          kDone
//
// A message is a kind, a front of plain values, and tensors as they lie in memory. Both ends hold the same model and
// the same build, so the lengths follow from the model's layout; they are not sent, and only checked when a message is
// read.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tandem/net/message_server.h"
#include "tandem/sync/replica.h"
#include "tandem/sync/variables/sync_variables.h"
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

// --- messages -------------------------------------------------------------------------------------------------------

enum VariableRequest : std::uint32_t {
  kExchange = 1,
  kRest,
  kResume,
  kLeave,
  kDepart,
  kWhere,
  kRecall,
  // From the owner to the process that keeps the variables, too (succession.h):
  kKeepWhole,
  kKeepStep,
  kKeepEnd,
  // Answers:
  kValues,
  kState,
  kFate,
  kHere,
  kNotHere,
  kUndecided,
  kDone
};

/// The tensors of a message that carries a gradient; none for null. Dense gradients travel as their flat buffers, which
/// hold the presence flags, too; a sparse gradient as the number of its rows (-1: none), their indices and their
/// values.
[[nodiscard]] std::vector<at::Tensor> tensors_of(const model::FlatParameters::Gradients* gradients);

/// The parts of a message to send: `head`, and tensors behind it. Copies nothing that lies on the CPU and is
/// contiguous; points into that memory and keeps its tensors alive. `head` has to outlive it.
class MessageParts {
 public:
  MessageParts(net::Bytes head, const std::vector<at::Tensor>& tensors);
  [[nodiscard]] std::span<const net::Bytes> get() const { return parts_; }

 private:
  std::vector<at::Tensor> tensors_;
  std::vector<net::Bytes> parts_;
};

/// A whole message: `head`, and behind it tensors of the CPU, each copied once.
[[nodiscard]] net::Message message_of(VariableRequest kind, net::Bytes head = {},
                                      const std::vector<at::Tensor>& tensors = {});
template <typename T>
[[nodiscard]] net::Bytes bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

/// Takes the pieces of a message off its front. Throws RunError where bytes are missing or left over, as between ranks
/// of different models.
class MessageReader {
 public:
  explicit MessageReader(net::Bytes bytes) : rest_(bytes) {}

  void read(void* into, std::size_t size);
  template <typename T>
  T read() {
    T value{};
    read(&value, sizeof(value));
    return value;
  }
  /// Reads how many things follow, each of `bytes` at least; negative for none. Not more than there can be.
  [[nodiscard]] std::int64_t read_count(std::size_t bytes);
  /// Reads a gradient into `gradients`, in the form of tensors_of().
  void read_gradient(const std::vector<model::FlatBuffer>& layout, model::FlatParameters::Gradients& gradients);
  /// Reads all that is left into tensors on any device.
  void read_rest(const std::vector<at::Tensor>& into);
  [[nodiscard]] bool is_at_end() const { return rest_.empty(); }
  /// Everything was read.
  void require_end() const;

 private:
  [[nodiscard]] at::Tensor read_tensor(at::IntArrayRef shape, at::ScalarType dtype);
  [[noreturn]] void fail() const;

  net::Bytes rest_;
};

/// Reads a message that is one plain value, as what kRecall asks and kFate answers.
template <typename T>
[[nodiscard]] T read_value(const net::Message& message) {
  MessageReader reader(message.bytes);
  const T value = reader.read<T>();
  reader.require_end();
  return value;
}

/// Writes a record as the front of a message, and takes it off one.
[[nodiscard]] std::vector<std::byte> front_of(const KeptRecord& record);
[[nodiscard]] KeptRecord read_record(MessageReader& reader);

/// Functions by which a Succession answers and hears in place of the variables. Called on the server's threads.
struct ServerHooks {
  /// The answer to a request that is not of a replica to the variables, else nothing.
  std::function<std::optional<net::Message>(int member, const net::Message& request, const Limits& limits)> answer{};
  /// Called in place of VariableService::lose(). The member may be none of the replicas.
  std::function<void(int member, const std::exception_ptr& why)> lose{};
};

/// Lets replicas of other processes use shared variables, and ends everybody's waits when one of them dies.
///
/// Each connection has a thread of its own, on which its requests are served one after the other. The failure of the
/// variables, from whatever replica, is told to all connections, so that waits elsewhere end with the same error. The
/// end of a connection is the loss of its replica, unless that has left.
///
/// Threads: constructed and destroyed by one. Waits for no replica; the destructor joins the threads of the
/// connections, whose waits it ends.
class VariableServer {
 public:
  /// `access`: where the replicas are. `names`: of all replicas of the run, for messages. A replica whose connection
  /// ends before it has left makes the variables fail with PeerLost. Whatever they fail with is told to all.
  VariableServer(net::Access access, std::shared_ptr<VariableService> variables, std::vector<std::string> names,
                 ServerHooks hooks = {});

  ~VariableServer() { variables_->on_failure({}); }

  [[nodiscard]] const std::string& contact() const { return server_.contact(); }
  /// Lets nobody in any more; see MessageServer.
  void shut_door() { server_.shut_door(); }

 private:
  [[nodiscard]] net::Message serve(int replica, const net::Message& request, const Limits& limits);
  void lose(int member, const std::string& how);
  void exchange(int replica, const net::Message& request, const Limits& limits, const VariableService::Read& read);

  const std::shared_ptr<VariableService> variables_;
  const std::vector<std::string> names_;
  const ServerHooks hooks_;
  std::vector<model::FlatParameters::Gradients> gradients_;  // one set a replica
  net::MessageServer server_;                                // last: its threads use the others
};

}  // namespace tandem::sync
