// sync/variable_message.h: the messages between replicas and the shared variables of another process, and between the
// owner of the variables and its standby. Internal.
//
//     request      carries                          answered by
//     kExchange    OfferHead, gradient              kValues: Outcome, values
//     kRest        nothing                          kDone
//     kResume      nothing                          kValues, or kDone where the replica holds the values already
//     kLeave       nothing                          kDone
//     kDepart      nothing                          kState: all tensors; the client then hangs up
//     kWhere       nothing                          kHere, kNotHere or kUndecided
//     kRecall      Recalled                         kFate: Outcome, or kNotHere
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
  kWhere,   // whether the variables are here; answered by kHere, kNotHere or kUndecided
  kRecall,  // Recalled; answered by kFate with an Outcome, or kNotHere
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

/// The parts of a message to send: `head`, and behind it a gradient (null: none), or tensors. Copies nothing that lies
/// on the CPU and is contiguous; points into that memory and keeps its tensors alive. `head` has to outlive it.
class MessageParts {
 public:
  MessageParts(net::Bytes head, const model::FlatParameters::Gradients* gradients);
  MessageParts(net::Bytes head, const std::vector<at::Tensor>& tensors);
  MessageParts(const MessageParts&) = delete;
  MessageParts& operator=(const MessageParts&) = delete;

  [[nodiscard]] std::span<const net::Bytes> get() const { return parts_; }

 private:
  void add(const at::Tensor& tensor);

  std::vector<at::Tensor> tensors_;
  std::vector<net::Bytes> parts_;
};

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
  template <typename T>
  std::vector<T> read_many(std::size_t count) {
    std::vector<T> values(count);
    read(values.data(), count * sizeof(T));
    return values;
  }
  [[nodiscard]] at::Tensor read_tensor(at::IntArrayRef shape, at::ScalarType dtype);
  /// On any device.
  void read_into(const at::Tensor& tensor);
  /// Everything was read.
  void require_end() const;

 private:
  [[noreturn]] void fail() const;

  net::Bytes rest_;
};

/// Reads the gradient of a MessageParts into `gradients`.
void read_gradient(MessageReader& reader, const std::vector<model::FlatBuffer>& layout,
                   model::FlatParameters::Gradients& gradients);

/// The front of an offer; the gradient follows, if there is one.
struct OfferHead {
  Offer offer;
  std::int64_t has_gradient = 0;
};

[[nodiscard]] net::Message values_message(const Outcome& outcome, const std::vector<model::FlatBuffer>& values);
/// Reads it into flat parameters. Throws RunError for bytes of another layout.
Outcome read_values(const net::Message& message, const model::FlatParameters& parameters);

/// A message that is one plain value, as what kRecall asks and kFate answers.
[[nodiscard]] net::Message fate_message(const Outcome& fate);
template <typename T>
[[nodiscard]] T read_value(const net::Message& message) {
  MessageReader reader(message.bytes);
  const T value = reader.read<T>();
  reader.require_end();
  return value;
}

/// Writes a record as the front of a message, and takes it off one.
[[nodiscard]] std::vector<std::byte> bytes_of(const KeptRecord& record);
[[nodiscard]] KeptRecord read_record(MessageReader& reader);

/// Writes tensors of the CPU into a message, and reads them into tensors of the same shapes on any device. Reading
/// throws as read_values().
[[nodiscard]] net::Message state_message(const std::vector<at::Tensor>& state);
void read_state(const net::Message& message, const std::vector<at::Tensor>& into);

}  // namespace tandem::sync
