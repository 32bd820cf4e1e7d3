#include "tandem/sync/variables/variable_message.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cstring>
#include <type_traits>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::sync {

static_assert(std::is_trivially_copyable_v<KeptStep> && std::is_trivially_copyable_v<KeptSeat>);

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

void MessageReader::read_rest(const std::vector<at::Tensor>& into) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& tensor : into) {
    if (tensor.is_cpu() && tensor.is_contiguous())
      read(tensor.mutable_data_ptr(), tensor.nbytes());
    else
      tensor.copy_(read_tensor(tensor.sizes(), tensor.scalar_type()));
  }
  require_end();
}

void MessageReader::require_end() const {
  if (!is_at_end()) fail();
}

void MessageReader::fail() const {
  throw RunError(concat("a message about the shared variables ends ", rest_.size(),
                        " bytes from where the model's layout says; the ranks hold different models or versions"));
}

// Reads into the same memory again and again; only sparse gradients, whose sizes change, get new tensors. Their rows
// are marked as coalesced, so that nobody sorts them: they are added in the order in which the replica put them.
void MessageReader::read_gradient(const std::vector<model::FlatBuffer>& layout,
                                  model::FlatParameters::Gradients& gradients) {
  for (std::size_t b = 0; b < layout.size(); ++b) {
    if (!layout[b].sparse) {
      read(gradients.flat[b].mutable_data_ptr(), gradients.flat[b].nbytes());
      continue;
    }
    for (std::size_t s = 0; s < layout[b].slots.size(); ++s) {
      at::Tensor& slot = gradients.sparse[b][s];
      slot.reset();
      const auto count = read<std::int64_t>();
      if (count < 0) continue;
      std::vector<std::int64_t> rows = layout[b].slots[s].shape;
      rows[0] = count;
      const at::Tensor indices = read_tensor({1, count}, at::kLong);
      const at::Tensor values = read_tensor(rows, layout[b].values.scalar_type());
      slot = at::_sparse_coo_tensor_unsafe(indices, values, layout[b].slots[s].shape)._coalesced_(true);
    }
  }
}

std::vector<at::Tensor> tensors_of(const model::FlatParameters::Gradients* gradients) {
  std::vector<at::Tensor> tensors;
  for (std::size_t b = 0; gradients != nullptr && b < gradients->flat.size(); ++b) {
    if (gradients->flat[b].defined()) tensors.push_back(gradients->flat[b]);
    for (const at::Tensor& slot : gradients->sparse[b]) {
      tensors.push_back(at::full({1}, slot.defined() ? slot._nnz() : -1, at::kLong));
      if (slot.defined()) tensors.insert(tensors.end(), {slot._indices(), slot._values()});
    }
  }
  return tensors;
}

MessageParts::MessageParts(net::Bytes head, const std::vector<at::Tensor>& tensors) {
  parts_.push_back(head);
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor& kept = tensors_.emplace_back(tensor.detach().cpu().contiguous());
    parts_.emplace_back(static_cast<const std::byte*>(kept.const_data_ptr()), kept.nbytes());
  }
}

// Values are the largest part of each step's traffic, so the message takes one allocation.
net::Message message_of(VariableRequest kind, net::Bytes head, const std::vector<at::Tensor>& tensors) {
  std::size_t size = head.size();
  for (const at::Tensor& tensor : tensors) size += tensor.nbytes();
  net::Message message{.kind = kind};
  message.bytes.reserve(size);
  message.bytes.assign(head.begin(), head.end());
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor whole = tensor.contiguous();
    const auto* bytes = static_cast<const std::byte*>(whole.const_data_ptr());
    message.bytes.insert(message.bytes.end(), bytes, bytes + whole.nbytes());
  }
  return message;
}

std::vector<std::byte> front_of(const KeptRecord& record) {
  const auto step = bytes_of<KeptStep>(record), seats = std::as_bytes(std::span(record.seats));
  const std::int64_t count = std::ssize(record.seats);
  std::vector<std::byte> front;
  for (const net::Bytes part : {step, bytes_of(count), seats}) front.insert(front.end(), part.begin(), part.end());
  return front;
}

KeptRecord read_record(MessageReader& reader) {
  KeptRecord record{reader.read<KeptStep>(), {}};
  record.seats.resize(static_cast<std::size_t>(reader.read<std::int64_t>()));
  for (KeptSeat& seat : record.seats) seat = reader.read<KeptSeat>();
  return record;
}

}  // namespace tandem::sync
