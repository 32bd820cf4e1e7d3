// sync/variable_message.h: the messages between replicas and the shared variables of another process, and between the
// owner of the variables and its standby. Internal.
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
#include <span>
#include <vector>

#include "tandem/net/connection.h"
#include "tandem/sync/variables/sync_variables.h"
#include "tandem/sync/variables/variable_service.h"

namespace tandem::sync {

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
  MessageParts(const MessageParts&) = delete;
  MessageParts& operator=(const MessageParts&) = delete;

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

}  // namespace tandem::sync
