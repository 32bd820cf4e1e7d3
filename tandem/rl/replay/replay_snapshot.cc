#include "tandem/rl/replay/replay_snapshot.h"

namespace tandem::rl {
namespace {

std::uint64_t bytes_of(const ReplayPiece& piece) {
  std::uint64_t bytes = 0;
  for (const NamedBytes& array : piece.arrays) bytes += array.bytes.size();
  return bytes;
}

}  // namespace

std::uint64_t ReplaySnapshot::bytes() const {
  std::uint64_t all = 0;
  for (const ReplayPiece& piece : pieces) all += bytes_of(piece);
  return all;
}

std::uint64_t ReplaySnapshot::bytes_written_each_time() const {
  std::uint64_t all = 0;
  for (const ReplayPiece& piece : pieces) all += piece.is_final ? 0 : bytes_of(piece);
  return all;
}

}  // namespace tandem::rl
