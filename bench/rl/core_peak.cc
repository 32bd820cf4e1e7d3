#include "bench/rl/core_peak.h"

#include <immintrin.h>

#include <algorithm>

#include "tandem/base/clock.h"
#include "tandem/base/cpu.h"

namespace tandem::bench {
namespace {

// Chains of multiply-adds that do not wait for each other: more than their latency times the units for them. In two
// dimensions, because the compiler then unrolls both loops and keeps all of them in registers.
constexpr int kGroups = 6, kWideChains = 4, kNarrowChains = 2, kLinks = 4096;

[[gnu::target("avx512f")]] float chain_avx512() {
  __m512 sum[kGroups][kWideChains];
  for (auto& group : sum) {
    for (int c = 0; c < kWideChains; ++c) group[c] = _mm512_set1_ps(static_cast<float>(c));
  }
  const __m512 factor = _mm512_set1_ps(0.999F), term = _mm512_set1_ps(0.01F);
  for (int link = 0; link < kLinks; ++link) {
    for (int g = 0; g < kGroups; ++g) {
      for (int c = 0; c < kWideChains; ++c) sum[g][c] = _mm512_fmadd_ps(sum[g][c], factor, term);
    }
  }
  __m512 all = _mm512_setzero_ps();
  for (int g = 0; g < kGroups; ++g) {
    for (int c = 0; c < kWideChains; ++c) all = _mm512_add_ps(all, sum[g][c]);
  }
  return _mm512_cvtss_f32(all);
}

[[gnu::target("avx2,fma")]] float chain_avx2() {
  __m256 sum[kGroups][kNarrowChains];
  for (auto& group : sum) {
    for (int c = 0; c < kNarrowChains; ++c) group[c] = _mm256_set1_ps(static_cast<float>(c));
  }
  const __m256 factor = _mm256_set1_ps(0.999F), term = _mm256_set1_ps(0.01F);
  for (int link = 0; link < kLinks; ++link) {
    for (int g = 0; g < kGroups; ++g) {
      for (int c = 0; c < kNarrowChains; ++c) sum[g][c] = _mm256_fmadd_ps(sum[g][c], factor, term);
    }
  }
  __m256 all = _mm256_setzero_ps();
  for (int g = 0; g < kGroups; ++g) {
    for (int c = 0; c < kNarrowChains; ++c) all = _mm256_add_ps(all, sum[g][c]);
  }
  return _mm256_cvtss_f32(all);
}

volatile float keep = 0;

}  // namespace

double core_peak() {
  const InstructionSet set = detect_instruction_set();
  if (set == InstructionSet::kPortable) return 0;
  const bool wide = set == InstructionSet::kAvx512;
  double best = 1e9;
  for (int i = 0; i < 10; ++i) {
    const Clock::time_point start = Clock::now();
    keep = wide ? chain_avx512() : chain_avx2();
    best = std::min(best, seconds_since(start));
  }
  return (wide ? 16.0 * kWideChains : 8.0 * kNarrowChains) * kGroups * kLinks / best;
}

}  // namespace tandem::bench
