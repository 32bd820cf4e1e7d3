#include "tandem/base/philox.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>

#include "tandem/base/check.h"
#include "tandem/base/error.h"

namespace tandem {
namespace {

// The saved state as it lies in memory. The words of the current block are not in it, since load() can compute them
// again.
struct SavedState {
  std::uint32_t format = 0x31786c50;  // "Plx1"
  std::uint16_t used = 0, has_spare = 0;
  std::uint64_t seed = 0, stream = 0, next_block = 0;
  double spare = 0;
  std::uint64_t reserved = 0;
};
static_assert(sizeof(SavedState) == Philox::kStateBytes && std::endian::native == std::endian::little);

std::uint32_t low_word(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint32_t high_word(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }

}  // namespace

std::array<std::uint32_t, 4> philox_block(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter[0];
    const std::uint64_t product1 = kMultiplier1 * counter[2];
    counter = {high_word(product1) ^ counter[1] ^ key[0], low_word(product1), high_word(product0) ^ counter[3] ^ key[1],
               low_word(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

// Computes the next block of the stream: the counter is (block, stream), the key is the seed.
void Philox::refill() {
  block_ = philox_block({low_word(next_block_), high_word(next_block_), low_word(stream_), high_word(stream_)},
                        {low_word(seed_), high_word(seed_)});
  ++next_block_;
  used_ = 0;
}

std::uint64_t Philox::below(std::uint64_t bound) {
  TANDEM_CHECK(bound > 0);
  // The high half of draw * bound is the answer. There are 2^64 mod bound draws too many for all answers to be equally
  // likely. Those draws have a low half below 2^64 mod bound, and are drawn again.
  __extension__ using Wide = unsigned __int128;
  Wide product = Wide{next_u64()} * bound;
  if (static_cast<std::uint64_t>(product) < bound) {
    const std::uint64_t surplus = -bound % bound;
    while (static_cast<std::uint64_t>(product) < surplus) product = Wide{next_u64()} * bound;
  }
  return static_cast<std::uint64_t>(product >> 64);
}

double Philox::normal() {
  // The second number of the last pair is returned without new random bits.
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  const double radius = std::sqrt(-2 * std::log(1 - uniform_double()));  // 1 - [0, 1) is never zero
  const double angle = 2 * std::numbers::pi * uniform_double();
  spare_ = radius * std::sin(angle);
  has_spare_ = true;
  return radius * std::cos(angle);
}

std::array<std::byte, Philox::kStateBytes> Philox::save() const {
  return std::bit_cast<std::array<std::byte, kStateBytes>>(SavedState{.used = static_cast<std::uint16_t>(used_),
                                                                      .has_spare = has_spare_,
                                                                      .seed = seed_,
                                                                      .stream = stream_,
                                                                      .next_block = next_block_,
                                                                      .spare = has_spare_ ? spare_ : 0.0});
}

void Philox::load(std::span<const std::byte> state) {
  SavedState saved{.format = 0};
  if (state.size() == kStateBytes) std::memcpy(&saved, state.data(), kStateBytes);
  if (saved.format != SavedState().format || saved.used > 4 || saved.has_spare > 1) {
    throw CheckpointError(concat("a random stream's state of ", state.size(), " bytes is not one that this version of ",
                                 "tandem wrote (", kStateBytes,
                                 " bytes): the file is damaged or from another version"));
  }
  Philox loaded(saved.seed, saved.stream);
  if (saved.used < 4) {  // some words of the current block are still to be handed out
    loaded.next_block_ = saved.next_block - 1;
    loaded.refill();
  }
  loaded.next_block_ = saved.next_block;
  loaded.used_ = saved.used;
  loaded.has_spare_ = saved.has_spare == 1;
  loaded.spare_ = saved.spare;
  *this = loaded;
}

std::uint64_t derive_seed(std::uint64_t run_seed, SeedPurpose purpose, std::uint64_t index) {
  // Another key than that of Philox(run_seed), so that no stream of that generator repeats these words.
  constexpr std::uint64_t kDomain = 0x7461646e656d2d73;
  const std::uint64_t key = run_seed ^ kDomain;
  const std::array<std::uint32_t, 4> block = philox_block(
      {low_word(index), high_word(index), static_cast<std::uint32_t>(purpose), 0}, {low_word(key), high_word(key)});
  return std::uint64_t{block[1]} << 32 | block[0];
}

}  // namespace tandem
