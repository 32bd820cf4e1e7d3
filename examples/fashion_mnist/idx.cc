#include "idx.h"

#include <ATen/ATen.h>

#include <cstring>
#include <vector>

#include "tandem/base/error.h"

namespace fashion_mnist {
namespace {

constexpr int kUnsignedByte = 0x08;
constexpr std::size_t kMostDimensions = 4;  // images with channels, the most that the datasets have

int byte_at(std::span<const std::byte> bytes, std::size_t at) { return std::to_integer<int>(bytes[at]); }

// Reads the big-endian number of 32 bits that begins at byte `at`.
std::int64_t big_endian_32(std::span<const std::byte> bytes, std::size_t at) {
  return std::int64_t{byte_at(bytes, at)} << 24 | byte_at(bytes, at + 1) << 16 | byte_at(bytes, at + 2) << 8 |
         byte_at(bytes, at + 3);
}

}  // namespace

// Checks every number of the header before memory is taken: a damaged header must not ask for terabytes.
at::Tensor parse_idx(std::span<const std::byte> bytes, const std::string& name) {
  const auto refuse = [&](const std::string& why) {
    throw tandem::DataError(name + " is not a usable IDX file: " + why);
  };
  if (bytes.size() < 4) refuse("it has " + std::to_string(bytes.size()) + " bytes, fewer than a header");
  if (byte_at(bytes, 0) != 0 || byte_at(bytes, 1) != 0) refuse("it does not begin with two zero bytes");
  if (byte_at(bytes, 2) != kUnsignedByte)
    refuse("its element type is " + std::to_string(byte_at(bytes, 2)) + ", only unsigned bytes (8) are read");
  const auto dimensions = static_cast<std::size_t>(byte_at(bytes, 3));
  if (dimensions == 0 || dimensions > kMostDimensions)
    refuse("it has " + std::to_string(dimensions) + " dimensions, expected 1 to " + std::to_string(kMostDimensions));
  const std::size_t header = 4 + 4 * dimensions;
  if (bytes.size() < header) refuse("it ends within its header of " + std::to_string(header) + " bytes");
  std::vector<std::int64_t> sizes;
  std::int64_t count = 1;
  for (std::size_t d = 0; d < dimensions; ++d) {
    sizes.push_back(big_endian_32(bytes, 4 + 4 * d));
    if (sizes.back() > 0 && count > (std::int64_t{1} << 40) / sizes.back()) refuse("its dimensions are too large");
    count *= sizes.back();
  }
  const auto have = static_cast<std::int64_t>(bytes.size() - header);
  if (have != count)
    refuse("its dimensions make " + std::to_string(count) + " elements, but " + std::to_string(have) +
           " bytes follow; the file is damaged or cut off");
  at::Tensor tensor = at::empty(sizes, at::kByte);
  std::memcpy(tensor.data_ptr(), bytes.data() + header, static_cast<std::size_t>(count));
  return tensor;
}

}  // namespace fashion_mnist
