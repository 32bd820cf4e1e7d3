// The SHA extensions hold the state as two vectors, ABEF and CDGH, and do two rounds an instruction; four words of the
// message schedule are made at a time. Intel SDM volume 1, section 12.2, and "Intel SHA Extensions" (Gulley et al.
// 2013).
#include "tandem/base/sha256_blocks.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#include <array>

#include "tandem/base/sha256_constants.h"

namespace tandem {
namespace {

bool has_sha_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return false;
  const bool shuffles = (c & bit_SSSE3) != 0 && (c & bit_SSE4_1) != 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  return shuffles && (b & 1u << 29) != 0;
}

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

}  // namespace

Sha256Blocks* sha256_blocks_x86() {
  static Sha256Blocks* const blocks = has_sha_instructions() ? blocks_with_sha : nullptr;
  return blocks;
}

}  // namespace tandem
#else
namespace tandem {
Sha256Blocks* sha256_blocks_x86() { return nullptr; }
}  // namespace tandem
#endif
