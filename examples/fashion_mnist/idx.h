// fashion_mnist/idx.h: arrays in the IDX format of MNIST and its successors.
//
// Two zero bytes, the element type, the number of dimensions, each dimension as a big-endian 32-bit number, then the
// elements in row-major order (http://yann.lecun.com/exdb/mnist). Only unsigned bytes are read, which is what the
// datasets use.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <string>

namespace fashion_mnist {

/// A uint8 tensor with a copy of the elements. `name` stands in messages. Throws tandem::DataError when the bytes are
/// no such array, or more or fewer than its dimensions say.
[[nodiscard]] at::Tensor parse_idx(std::span<const std::byte> bytes, const std::string& name);

}  // namespace fashion_mnist
