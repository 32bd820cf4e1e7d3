// base/digest/hmac.h: HMAC-SHA-256 (RFC 2104), by which the members of a run prove to each other that they know its
// secret.
//
// Threads: all.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tandem/base/digest/sha256.h"

namespace tandem {

/// The code of all parts, one after the other. Where a part's length can vary, the parts say where it ends: other parts
/// that make the same bytes have the same code.
[[nodiscard]] Sha256::Digest hmac_sha256(std::span<const std::byte> key,
                                         std::span<const std::span<const std::byte>> parts);
[[nodiscard]] Sha256::Digest hmac_sha256(std::span<const std::byte> key, std::string_view text);

/// Whether both have the same bytes. Takes as long wherever they differ, so that time tells a stranger nothing.
[[nodiscard]] bool equal_in_constant_time(const Sha256::Digest& one, const Sha256::Digest& other);

/// Fills `into` with random bytes of the system that nobody can predict (getrandom). Throws RunError when it has none.
void fill_randomly(std::span<std::byte> into);

/// `bytes` random bytes, as lower-case hexadecimal digits.
[[nodiscard]] std::string random_hex(std::size_t bytes);

}  // namespace tandem
