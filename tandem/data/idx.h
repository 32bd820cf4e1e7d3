// data/idx.h: reads arrays in the IDX format of MNIST and its successors.
//
// A file holds two zero bytes, the element type, the number of dimensions, each dimension as a big-endian 32-bit
// number, and then the elements in row-major order. Only unsigned bytes are read, which is what the datasets use.
//
// Threads: all. Source: http://yann.lecun.com/exdb/mnist.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <string>

namespace tandem::data {

/// Returns a uint8 tensor on the CPU with a copy of the elements. `name` is the file's name in messages. Throws
/// DataError when the bytes are no such array, or when there are more or fewer of them than the dimensions say.
[[nodiscard]] at::Tensor parse_idx(std::span<const std::byte> bytes, const std::string& name);

}  // namespace tandem::data
