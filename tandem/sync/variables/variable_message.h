// sync/variable_message.h: gradients and values as bytes of messages. Internal.
//
// Both ends hold the same model on the same build, so lengths follow from the layout and are only checked.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "tandem/net/connection.h"
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
  // Of the owner to the process that keeps the variables besides (succession.h):
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

/// A gradient (nullptr: none), or tensors, behind `head`, which is not kept, as the parts of a message. Keeps the
/// tensors, whose memory it points into, alive.
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

class MessageReader;
/// Reads the gradient of a MessageParts into `gradients`. Throws RunError for bytes of another layout.
void read_gradient(MessageReader& reader, const std::vector<model::FlatBuffer>& layout,
                   model::FlatParameters::Gradients& gradients);

struct OfferHead {
  Offer offer;
  std::int64_t has_gradient = 0;
};

/// An offer with its gradient, or without; see MessageParts.
class OfferMessage {
 public:
  OfferMessage(const Offer& offer, const model::FlatParameters::Gradients* gradients);

  [[nodiscard]] std::span<const net::Bytes> parts() const { return parts_.get(); }

 private:
  const OfferHead head_;
  const MessageParts parts_;
};

/// Reads an OfferMessage; the gradient goes into `gradients`. Returns whether there is one. Throws RunError for bytes
/// of another layout.
bool read_offer(const net::Message& message, const std::vector<model::FlatBuffer>& layout, Offer& offer,
                model::FlatParameters::Gradients& gradients);

[[nodiscard]] net::Message values_message(const Outcome& outcome, const std::vector<model::FlatBuffer>& values);
/// Reads it into flat parameters. Throws RunError for bytes of another layout.
Outcome read_values(const net::Message& message, const model::FlatParameters& parameters);

/// What kRecall says and kFate answers.
[[nodiscard]] net::Message fate_message(const Outcome& fate);
Outcome read_fate(const net::Message& message);
Recalled read_recalled(const net::Message& message);

/// Tensors on the CPU, and those of the same shapes on any device that are to hold the same. The latter throws as
/// read_values().
[[nodiscard]] net::Message state_message(const std::vector<at::Tensor>& state);
void read_state(const net::Message& message, const std::vector<at::Tensor>& into);

}  // namespace tandem::sync
