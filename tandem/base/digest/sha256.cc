#include "tandem/base/digest/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace tandem {
namespace {

// The round constants (FIPS 180-4 section 4.2.2).
alignas(16) constexpr std::array<std::uint32_t, 64> kSha256Rounds{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t big_endian(const std::byte* bytes) {
  return std::to_integer<std::uint32_t>(bytes[0]) << 24 | std::to_integer<std::uint32_t>(bytes[1]) << 16 |
         std::to_integer<std::uint32_t>(bytes[2]) << 8 | std::to_integer<std::uint32_t>(bytes[3]);
}

// The 64 words of a block's message schedule (FIPS 180-4 section 6.2.2, step 1).
std::array<std::uint32_t, 64> message_schedule(const std::byte* data) {
  std::array<std::uint32_t, 64> w;
  for (std::size_t t = 0; t < 16; ++t) w[t] = big_endian(data + 4 * t);
  for (std::size_t t = 16; t < 64; ++t) {
    const std::uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ w[t - 15] >> 3;
    const std::uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ w[t - 2] >> 10;
    w[t] = s1 + w[t - 7] + s0 + w[t - 16];
  }
  return w;
}

#if defined(__x86_64__)

// Asks the processor: SSSE3 and SSE4.1 in leaf 1, the SHA extensions in leaf 7.
bool has_sha_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return false;
  const bool shuffles = (c & bit_SSSE3) != 0 && (c & bit_SSE4_1) != 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  return shuffles && (b & 1u << 29) != 0;
}

// The SHA extensions hold the state as two vectors, ABEF and CDGH, and do two rounds an instruction; four words of the
// message schedule are made at a time. Intel SDM volume 1, section 12.2, and "Intel SHA Extensions" (Gulley et al.
// 2013).
// A vector in a struct: std::array of a bare vector type loses the type's attributes, and GCC warns.
struct Words {
  __m128i four;
};

__attribute__((target("sha,sse4.1,ssse3"))) void blocks_with_sha(std::uint32_t* state, const std::byte* data,
                                                                 std::size_t count) {
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  // state is a b c d | e f g h in memory, lowest first; the instructions want (high to low) a b e f and c d g h.
  const __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(state)), 0xB1);
  const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(state + 4)), 0x1B);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8);
  __m128i cdgh = _mm_blend_epi16(efgh, cdab, 0xF0);

  for (; count > 0; --count, data += 64) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    std::array<Words, 4> w;  // the last sixteen of the schedule, as a ring
#pragma GCC unroll 16
    for (std::size_t i = 0; i < 16; ++i) {
      __m128i& now = w[i % 4].four;
      if (i < 4) {
        now = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(data + 16 * i)), big_endian);
      } else {
        const __m128i last = w[(i + 3) % 4].four;
        const __m128i seven_back = _mm_alignr_epi8(last, w[(i + 2) % 4].four, 4);
        now = _mm_add_epi32(_mm_sha256msg1_epu32(now, w[(i + 1) % 4].four), seven_back);
        now = _mm_sha256msg2_epu32(now, last);
      }
      const __m128i rounds = _mm_load_si128(reinterpret_cast<const __m128i*>(kSha256Rounds.data() + 4 * i));
      const __m128i input = _mm_add_epi32(now, rounds);
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, input);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(input, 0x0E));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }

  const __m128i feba = _mm_shuffle_epi32(abef, 0x1B);
  const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xB1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state), _mm_blend_epi16(feba, dchg, 0xF0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

#endif

}  // namespace

// The letters are those of FIPS 180-4.
void sha256_blocks_portable(std::uint32_t* state, const std::byte* data, std::size_t count) {
  for (; count > 0; --count, data += 64) {
    const std::array<std::uint32_t, 64> w = message_schedule(data);
    std::uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    std::uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (std::size_t t = 0; t < 64; ++t) {
      const std::uint32_t sum1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const std::uint32_t t1 = h + sum1 + ((e & f) ^ (~e & g)) + kSha256Rounds[t] + w[t];
      const std::uint32_t sum0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const std::uint32_t t2 = sum0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1;
      d = c, c = b, b = a, a = t1 + t2;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
  }
}

Sha256Blocks* sha256_blocks_x86() {
#if defined(__x86_64__)
  static Sha256Blocks* const blocks = has_sha_instructions() ? blocks_with_sha : nullptr;
  return blocks;
#else
  return nullptr;
#endif
}

Sha256Blocks* best_sha256_blocks() {
  static Sha256Blocks* const best = sha256_blocks_x86() != nullptr ? sha256_blocks_x86() : sha256_blocks_portable;
  return best;
}

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

std::string Sha256::hex() const { return hex_of(digest()); }

std::string hex_of(std::span<const std::byte> bytes) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte value : bytes) {
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
