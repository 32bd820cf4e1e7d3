// Question: can any bytes be read as a safetensors file and then not be written as the same tensors, or crash or hang
// its reader? (The layout alone is a part of checkpoint_fuzz.)
#include <ATen/ATen.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/model/files/safetensors.h"

namespace {

using tandem::model::TensorFile;

bool are_same(const at::Tensor& a, const at::Tensor& b) {
  return a.dtype() == b.dtype() && a.sizes() == b.sizes() &&
         (a.numel() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0);
}

// Larger elements are written first, so tensors may come back in another order.
void read_back(const TensorFile& file) {
  std::vector<std::byte> bytes;
  tandem::model::write_safetensors(file.tensors, file.metadata, [&bytes](std::span<const std::byte> piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  });
  const TensorFile again = tandem::model::read_safetensors(bytes);
  if (again.metadata != file.metadata || again.tensors.size() != file.tensors.size()) std::abort();
  for (const auto& [name, tensor] : file.tensors) {
    if (!are_same(again.at(name), tensor)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    read_back(tandem::model::read_safetensors(std::as_bytes(std::span(data, size))));
  } catch (const tandem::CheckpointError&) {
  }
  return 0;
}
