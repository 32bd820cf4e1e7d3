// base/digest/sha256.h: SHA-256 (FIPS 180-4) over a stream of bytes. States are compared and files are checked by it.
//
//   Sha256 hash;
//   hash.update(header);
//   hash.update(content);
//   const std::string digest = hash.hex();
//
// The processor's SHA instructions are used where it has them; both ways give the same digest. Why the code is ours:
// docs/decisions/0047.
//
// Threads: single-thread.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tandem {

/// Folds `count` blocks of 64 bytes into `state` (eight words).
using Sha256Blocks = void(std::uint32_t* state, const std::byte* data, std::size_t count);

/// The function as FIPS 180-4 section 6.2.2 writes it. It runs on every processor.
void sha256_blocks_portable(std::uint32_t* state, const std::byte* data, std::size_t count);

/// The function made of the SHA instructions of x86; null where this processor, or this build's architecture, has none.
[[nodiscard]] Sha256Blocks* sha256_blocks_x86();

/// The fastest function that runs on this processor.
[[nodiscard]] Sha256Blocks* best_sha256_blocks();

/// The digest of all bytes that update() was given, in whatever pieces they came.
class Sha256 {
 public:
  using Digest = std::array<std::byte, 32>;

  Sha256() : Sha256(best_sha256_blocks()) {}
  /// Takes the implementation of the compression function, for tests and measurements.
  explicit Sha256(Sha256Blocks* blocks) : blocks_(blocks) {}

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text))); }

  /// The digest of everything so far. Does not change the object, so more bytes may follow.
  [[nodiscard]] Digest digest() const;
  /// The digest as 64 lower-case hexadecimal digits.
  [[nodiscard]] std::string hex() const;

 private:
  Sha256Blocks* blocks_;
  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> pending_{};  // the size_ % 64 bytes after the last whole block
  std::uint64_t size_ = 0;               // of all bytes so far
};

/// `bytes` as lower-case hexadecimal digits, two for each byte.
[[nodiscard]] std::string hex_of(std::span<const std::byte> bytes);

/// Returns the digest of `bytes` as 64 lower-case hexadecimal digits.
[[nodiscard]] std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace tandem
