// base/sha256_blocks.h: the compression function of SHA-256, portable and with the SHA instructions of x86. Internal.
//
// Threads: all.
#pragma once
#include <cstddef>
#include <cstdint>

namespace tandem {

/// Folds `count` blocks of 64 bytes into `state` (eight words).
using Sha256Blocks = void(std::uint32_t* state, const std::byte* data, std::size_t count);

/// The function as FIPS 180-4 section 6.2.2 writes it. It runs on every processor.
void sha256_blocks_portable(std::uint32_t* state, const std::byte* data, std::size_t count);

/// The function made of the SHA instructions of x86; null where this processor, or this build's architecture, has none.
[[nodiscard]] Sha256Blocks* sha256_blocks_x86();

/// The fastest function that runs on this processor.
[[nodiscard]] Sha256Blocks* best_sha256_blocks();

}  // namespace tandem
