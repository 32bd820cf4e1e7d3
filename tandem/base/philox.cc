#include "tandem/base/philox.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "tandem/base/check.h"
#include "tandem/base/error.h"

namespace tandem {
namespace {

constexpr std::uint32_t kStateFormat = 0x31786c50;  // "Plx1"

std::uint32_t low_word(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint32_t high_word(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }

// Writes `value` in as many little-endian bytes as there are.
void put(std::span<std::byte> bytes, std::uint64_t value) {
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i));
}

// Reads a little-endian number of up to eight bytes.
std::uint64_t get(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  return value;
}

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

// The saved state is: format 4 bytes, used words 2, whether there is a spare normal 2, seed 8, stream 8, next block 8,
// the spare normal 8. The words of the current block are not in it, since load() can compute them again.
std::array<std::byte, Philox::kStateBytes> Philox::save() const {
  std::array<std::byte, kStateBytes> state{};
  const std::span<std::byte> bytes(state);
  put(bytes.subspan(0, 4), kStateFormat);
  put(bytes.subspan(4, 2), used_);
  put(bytes.subspan(6, 2), has_spare_ ? 1 : 0);
  put(bytes.subspan(8, 8), seed_);
  put(bytes.subspan(16, 8), stream_);
  put(bytes.subspan(24, 8), next_block_);
  put(bytes.subspan(32, 8), std::bit_cast<std::uint64_t>(has_spare_ ? spare_ : 0.0));
  return state;
}

void Philox::load(std::span<const std::byte> state) {
  if (state.size() != kStateBytes || get(state.subspan(0, 4)) != kStateFormat || get(state.subspan(4, 2)) > 4 ||
      get(state.subspan(6, 2)) > 1) {
    throw CheckpointError(concat("a random stream's state of ", state.size(), " bytes is not one that this version of ",
                                 "tandem wrote (", kStateBytes,
                                 " bytes): the file is damaged or from another version"));
  }
  Philox loaded(get(state.subspan(8, 8)), get(state.subspan(16, 8)));
  const std::uint64_t next_block = get(state.subspan(24, 8));
  const std::size_t used = get(state.subspan(4, 2));
  if (used < 4) {  // some words of the current block are still to be handed out
    loaded.next_block_ = next_block - 1;
    loaded.refill();
  }
  loaded.next_block_ = next_block;
  loaded.used_ = used;
  loaded.has_spare_ = get(state.subspan(6, 2)) == 1;
  loaded.spare_ = std::bit_cast<double>(get(state.subspan(32, 8)));
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
