#include "tandem/sync/variables/variable_message.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cstring>

#include "tandem/sync/variables/message_reader.h"

namespace tandem::sync {
namespace {

at::Tensor counted(std::int64_t count) { return at::full({1}, count, at::kLong); }

}  // namespace

MessageParts::MessageParts(net::Bytes head, const model::FlatParameters::Gradients* gradients) {
  parts_.push_back(head);
  if (gradients == nullptr) return;
  for (std::size_t b = 0; b < gradients->flat.size(); ++b) {
    if (gradients->flat[b].defined()) add(gradients->flat[b]);
    for (const at::Tensor& slot : gradients->sparse[b]) {
      add(counted(slot.defined() ? slot._nnz() : -1));
      if (!slot.defined()) continue;
      add(slot._indices());
      add(slot._values());
    }
  }
}

MessageParts::MessageParts(net::Bytes head, const std::vector<at::Tensor>& tensors) {
  parts_.push_back(head);
  for (const at::Tensor& tensor : tensors) add(tensor);
}

void MessageParts::add(const at::Tensor& tensor) {
  tensors_.push_back(tensor.detach().cpu().contiguous());
  parts_.emplace_back(static_cast<const std::byte*>(tensors_.back().const_data_ptr()), tensors_.back().nbytes());
}

void read_gradient(MessageReader& reader, const std::vector<model::FlatBuffer>& layout,
                   model::FlatParameters::Gradients& gradients) {
  for (std::size_t b = 0; b < layout.size(); ++b) {
    if (!layout[b].sparse) {
      reader.read(gradients.flat[b].mutable_data_ptr(), gradients.flat[b].nbytes());
      continue;
    }
    for (std::size_t s = 0; s < layout[b].slots.size(); ++s) {
      at::Tensor& slot = gradients.sparse[b][s];
      slot.reset();
      const auto count = reader.read<std::int64_t>();
      if (count < 0) continue;
      std::vector<std::int64_t> rows = layout[b].slots[s].shape;
      rows[0] = count;
      const at::Tensor indices = reader.read_tensor({1, count}, at::kLong);
      const at::Tensor values = reader.read_tensor(rows, layout[b].values.scalar_type());
      slot = at::_sparse_coo_tensor_unsafe(indices, values, layout[b].slots[s].shape)._coalesced_(true);
    }
  }
}

OfferMessage::OfferMessage(const Offer& offer, const model::FlatParameters::Gradients* gradients)
    : head_{.offer = offer, .has_gradient = gradients != nullptr ? 1 : 0},
      parts_(std::as_bytes(std::span(&head_, 1)), gradients) {}

bool read_offer(const net::Message& message, const std::vector<model::FlatBuffer>& layout, Offer& offer,
                model::FlatParameters::Gradients& gradients) {
  MessageReader reader(message.bytes);
  const auto head = reader.read<OfferHead>();
  offer = head.offer;
  if (head.has_gradient != 0) read_gradient(reader, layout, gradients);
  reader.require_end();
  return head.has_gradient != 0;
}

net::Message values_message(const Outcome& outcome, const std::vector<model::FlatBuffer>& values) {
  std::size_t size = sizeof(outcome);
  for (const model::FlatBuffer& buffer : values) size += buffer.values.nbytes();
  net::Message message{.kind = kValues, .patience = -1, .bytes = std::vector<std::byte>(size)};
  std::byte* at = message.bytes.data();
  std::memcpy(at, &outcome, sizeof(outcome));
  at += sizeof(outcome);
  for (const model::FlatBuffer& buffer : values) {
    if (buffer.values.nbytes() > 0) std::memcpy(at, buffer.values.const_data_ptr(), buffer.values.nbytes());
    at += buffer.values.nbytes();
  }
  return message;
}

Outcome read_values(const net::Message& message, const model::FlatParameters& parameters) {
  const at::NoGradGuard no_grad;
  MessageReader reader(message.bytes);
  const auto outcome = reader.read<Outcome>();
  for (const model::FlatBuffer& buffer : parameters.buffers()) reader.read_into(buffer.values);
  reader.require_end();
  return outcome;
}

net::Message fate_message(const Outcome& fate) {
  const auto bytes = std::as_bytes(std::span(&fate, 1));
  return {.kind = kFate, .patience = -1, .bytes = {bytes.begin(), bytes.end()}};
}

Outcome read_fate(const net::Message& message) {
  MessageReader reader(message.bytes);
  const auto fate = reader.read<Outcome>();
  reader.require_end();
  return fate;
}

Recalled read_recalled(const net::Message& message) {
  MessageReader reader(message.bytes);
  const auto told = reader.read<Recalled>();
  reader.require_end();
  return told;
}

net::Message state_message(const std::vector<at::Tensor>& state) {
  net::Message message{.kind = kState, .patience = -1, .bytes = {}};
  for (const at::Tensor& tensor : state) {
    const at::Tensor whole = tensor.contiguous();
    const auto* bytes = static_cast<const std::byte*>(whole.const_data_ptr());
    message.bytes.insert(message.bytes.end(), bytes, bytes + whole.nbytes());
  }
  return message;
}

void read_state(const net::Message& message, const std::vector<at::Tensor>& into) {
  const at::NoGradGuard no_grad;
  MessageReader reader(message.bytes);
  for (const at::Tensor& tensor : into) reader.read_into(tensor);
  reader.require_end();
}

}  // namespace tandem::sync
