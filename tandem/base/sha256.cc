#include "tandem/base/sha256.h"

#include <algorithm>
#include <cstring>

namespace tandem {

// Completes the block that is pending, then folds whole blocks in place, without a copy, and keeps the rest.
void Sha256::update(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const std::size_t held = size_ % 64;
  size_ += bytes.size();
  if (held != 0) {
    const std::size_t taken = std::min(bytes.size(), 64 - held);
    std::memcpy(pending_.data() + held, bytes.data(), taken);
    bytes = bytes.subspan(taken);
    if (held + taken < 64) return;
    blocks_(state_.data(), pending_.data(), 1);
  }
  blocks_(state_.data(), bytes.data(), bytes.size() / 64);
  const std::span<const std::byte> rest = bytes.subspan(bytes.size() / 64 * 64);
  std::copy(rest.begin(), rest.end(), pending_.begin());
}

Sha256::Digest Sha256::digest() const {
  // Padding: one bit, zeros, and the length in bits as a big-endian 64-bit number at the end of the last block.
  std::array<std::byte, 128> tail{};
  const std::size_t held = size_ % 64;
  std::copy_n(pending_.begin(), held, tail.begin());
  tail[held] = std::byte{0x80};
  const std::size_t blocks = held + 9 <= 64 ? 1 : 2;
  for (std::size_t i = 0; i < 8; ++i) tail[blocks * 64 - 1 - i] = static_cast<std::byte>(size_ * 8 >> (8 * i));
  std::array<std::uint32_t, 8> state = state_;
  blocks_(state.data(), tail.data(), blocks);

  Digest digest;
  for (std::size_t i = 0; i < digest.size(); ++i) digest[i] = static_cast<std::byte>(state[i / 4] >> (24 - i % 4 * 8));
  return digest;
}

std::string Sha256::hex() const {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte value : digest()) {
    text += kDigits[std::to_integer<std::size_t>(value >> 4)];
    text += kDigits[std::to_integer<std::size_t>(value & std::byte{15})];
  }
  return text;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

}  // namespace tandem
