#include "tandem/sync/variables/message_reader.h"

#include <ATen/ATen.h>

#include <cstring>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::sync {

void MessageReader::read(void* into, std::size_t size) {
  if (size > rest_.size()) fail();
  if (size > 0) std::memcpy(into, rest_.data(), size);
  rest_ = rest_.subspan(size);
}

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

}  // namespace tandem::sync
