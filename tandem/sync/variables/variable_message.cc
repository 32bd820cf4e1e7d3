#include "tandem/sync/variables/variable_message.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cstring>
#include <type_traits>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::sync {
namespace {

// The number of rows of a sparse gradient, or -1 for none, in front of its indices and values.
at::Tensor counted(std::int64_t count) { return at::full({1}, count, at::kLong); }

static_assert(std::is_trivially_copyable_v<KeptSeat>);

struct RecordHead {
  std::int64_t step = 0, seats = 0;
  double learning_rate = 0, scale = 1, lr_factor = 1;
};

}  // namespace

void MessageReader::read(void* into, std::size_t size) {
  if (size > rest_.size()) fail();
  if (size > 0) std::memcpy(into, rest_.data(), size);
  rest_ = rest_.subspan(size);
}

// Tensors of a message are read into memory of their own, so that the message can go.
at::Tensor MessageReader::read_tensor(at::IntArrayRef shape, at::ScalarType dtype) {
  const at::Tensor tensor = at::empty(shape, dtype);
  read(tensor.data_ptr(), tensor.nbytes());
  return tensor;
}

void MessageReader::read_into(const at::Tensor& tensor) {
  if (tensor.is_cpu() && tensor.is_contiguous()) {
    read(tensor.mutable_data_ptr(), tensor.nbytes());
  } else {
    tensor.copy_(read_tensor(tensor.sizes(), tensor.scalar_type()));
  }
}

void MessageReader::require_end() const {
  if (!rest_.empty()) fail();
}

void MessageReader::fail() const {
  throw RunError(concat("a message about the shared variables ends ", rest_.size(),
                        " bytes from where the model's layout says; the ranks hold different models or versions"));
}

// Dense gradients travel as their flat buffers, which hold the presence flags, too. A sparse gradient travels as the
// number of its rows, their indices and their values.
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

// Reads into the same memory again and again; only sparse gradients, whose sizes change, get new tensors. Their rows
// are marked as coalesced, so that nobody sorts them: they are added in the order in which the replica put them.
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

// Copies each tensor once, straight into the message: values are the largest part of each step's traffic.
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

std::vector<std::byte> bytes_of(const KeptRecord& record) {
  const RecordHead head{.step = record.step,
                        .seats = std::ssize(record.seats),
                        .learning_rate = record.learning_rate,
                        .scale = record.scale,
                        .lr_factor = record.lr_factor};
  const auto seats = std::as_bytes(std::span(record.seats));
  std::vector<std::byte> bytes(sizeof(head) + seats.size());
  std::memcpy(bytes.data(), &head, sizeof(head));
  if (!seats.empty()) std::memcpy(bytes.data() + sizeof(head), seats.data(), seats.size());
  return bytes;
}

KeptRecord read_record(MessageReader& reader) {
  const auto head = reader.read<RecordHead>();
  return {.step = head.step,
          .learning_rate = head.learning_rate,
          .scale = head.scale,
          .lr_factor = head.lr_factor,
          .seats = reader.read_many<KeptSeat>(static_cast<std::size_t>(head.seats))};
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
