#include "tandem/base/digest/hmac.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem {
namespace {

constexpr std::size_t kBlock = 64;  // bytes of a block of SHA-256

std::array<std::byte, kBlock> padded(std::span<const std::byte> key, std::byte pad) {
  std::array<std::byte, kBlock> block{};
  if (key.size() > kBlock) {
    Sha256 hash;
    hash.update(key);
    std::ranges::copy(hash.digest(), block.begin());
  } else {
    std::ranges::copy(key, block.begin());
  }
  for (std::byte& each : block) each ^= pad;
  return block;
}

}  // namespace

Sha256::Digest hmac_sha256(std::span<const std::byte> key, std::span<const std::span<const std::byte>> parts) {
  Sha256 inner, outer;
  inner.update(padded(key, std::byte{0x36}));
  for (const std::span<const std::byte> part : parts) inner.update(part);
  outer.update(padded(key, std::byte{0x5c}));
  outer.update(inner.digest());
  return outer.digest();
}

Sha256::Digest hmac_sha256(std::span<const std::byte> key, std::string_view text) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  return hmac_sha256(key, {&bytes, 1});
}

bool equal_in_constant_time(const Sha256::Digest& one, const Sha256::Digest& other) {
  auto differences = std::byte{0};
  for (std::size_t i = 0; i < one.size(); ++i) differences |= one[i] ^ other[i];
  return differences == std::byte{0};
}

void fill_randomly(std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t got = ::getrandom(into.data(), into.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw RunError(concat("no random bytes from the system: ", std::generic_category().message(errno)));
    into = into.subspan(static_cast<std::size_t>(got));
  }
}

std::string random_hex(std::size_t bytes) {
  std::vector<std::byte> random(bytes);
  fill_randomly(random);
  return hex_of(random);
}

}  // namespace tandem
