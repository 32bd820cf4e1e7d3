#include "tandem/model/state_hash.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

#include "tandem/base/check.h"
#include "tandem/base/sha256.h"

namespace tandem::model {
namespace {

static_assert(std::endian::native == std::endian::little, "hashes and files hold the bytes of memory as they are");

// Adds the elements in the order of their indices, whatever device and strides the tensor has.
void add_bytes(Sha256& hash, const std::string& name, const at::Tensor& tensor) {
  TANDEM_CHECK(tensor.defined() && tensor.layout() == at::kStrided, "\"", name, "\" is not a dense tensor");
  const at::Tensor plain = tensor.detach().contiguous().cpu();
  hash.update(std::span(static_cast<const std::byte*>(plain.const_data_ptr()), plain.nbytes()));
}

// Lengths go in front of what varies in length, so no two different states give the same stream of bytes.
void add_number(Sha256& hash, std::uint64_t number) { hash.update(std::as_bytes(std::span(&number, 1))); }

void add_text(Sha256& hash, std::string_view text) {
  add_number(hash, text.size());
  hash.update(text);
}

}  // namespace

std::string bytes_sha256(const NamedTensors& tensors) {
  Sha256 hash;
  for (const auto& [name, tensor] : tensors) add_bytes(hash, name, tensor);
  return hash.hex();
}

// Sorted by name, so that the order in which a program lists its state does not count.
std::string state_sha256(NamedTensors tensors) {
  std::ranges::sort(tensors, {}, &NamedTensors::value_type::first);
  Sha256 hash;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, tensor] = tensors[i];
    TANDEM_CHECK(i == 0 || name != tensors[i - 1].first, "\"", name, "\" is part of the state twice");
    TANDEM_CHECK(tensor.defined(), "\"", name, "\" is undefined");
    add_text(hash, name);
    add_text(hash, at::toString(tensor.scalar_type()));
    add_number(hash, static_cast<std::uint64_t>(tensor.dim()));
    for (const auto size : tensor.sizes()) add_number(hash, static_cast<std::uint64_t>(size));
    add_bytes(hash, name, tensor);
  }
  return hash.hex();
}

}  // namespace tandem::model
