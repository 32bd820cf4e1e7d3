#include "tandem/rl/algo/off_policy/replay_parts.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <sstream>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/algo/run_parts.h"

namespace tandem::rl {
namespace {

// Where a replay's segments have fewer bytes, two megabytes are written at each checkpoint, as many as of a large one.
constexpr std::size_t kLeastOfAFile = std::size_t{32} << 10;
constexpr const char* kSegments = "segments";  // the names of full segments' parts, a line each

std::size_t bytes_of_piece(const ReplayPiece& piece) {
  std::size_t bytes = 0;
  for (const NamedBytes& array : piece.arrays) bytes += array.bytes.size();
  return bytes;
}

std::string part_of_segment(int shard, const std::string& piece) { return concat(replay_part(shard), ".", piece); }

// A view that keeps the snapshot's memory alive. Nobody writes to it: the tensor is on its way to a file.
at::Tensor view_of(const NamedBytes& array, const std::shared_ptr<const void>& memory) {
  return at::from_blob(
      const_cast<std::byte*>(array.bytes.data()), {std::ssize(array.bytes)}, [memory](void*) {}, at::kByte);
}

void append_arrays(const std::string& prefix, const ReplayPiece& piece, model::NamedTensors& tensors) {
  for (const NamedBytes& array : piece.arrays) tensors.emplace_back(prefix + array.name, view_of(array, piece.memory));
}

const at::Tensor* tensor_called(const std::string& name, const model::NamedTensors& tensors) {
  const auto found = std::ranges::find(tensors, name, &model::NamedTensors::value_type::first);
  return found == tensors.end() ? nullptr : &found->second;
}

}  // namespace

std::string replay_part(int shard) { return concat("replay-", shard); }

void append_replay(int shard, const ReplaySnapshot& snapshot, const std::set<std::string>& held,
                   learner::StateParts& parts) {
  model::NamedTensors changing;
  std::string names;
  for (const ReplayPiece& piece : snapshot.pieces) {
    if (!piece.is_final || bytes_of_piece(piece) < kLeastOfAFile) {
      append_arrays(piece.name + "/", piece, changing);
      continue;
    }
    const std::string name = part_of_segment(shard, piece.name);
    names += name + "\n";
    if (held.contains(name)) continue;
    append_arrays("", piece, parts.emplace_back(name, model::NamedTensors()).second);
  }
  const std::span<const std::byte> text = std::as_bytes(std::span(names));
  if (!names.empty()) changing.emplace_back(kSegments, tensor_of(std::vector<std::byte>(text.begin(), text.end())));
  parts.emplace_back(replay_part(shard), std::move(changing));
}

std::vector<std::string> segments_of_replay(const model::NamedTensors& part) {
  std::vector<std::string> names;
  const at::Tensor* const text = tensor_called(kSegments, part);
  if (text == nullptr) return names;
  const std::span<const std::byte> bytes = bytes_of(*text);
  std::istringstream lines(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  for (std::string line; std::getline(lines, line);) names.push_back(line);
  return names;
}

// A segment is read when it is asked for, so one at a time is in memory.
ReadReplayPiece pieces_of_replay(int shard, const model::NamedTensors& part, learner::ReadPart read) {
  return [shard, &part, read = std::move(read), segments = segments_of_replay(part)](const std::string& name) {
    ReplayPiece piece{.name = name, .is_final = false, .arrays = {}, .memory = {}};
    const std::string segment = part_of_segment(shard, name);
    if (std::ranges::find(segments, segment) != segments.end()) {
      const auto tensors = std::make_shared<model::NamedTensors>(read(segment));
      for (const auto& [array, tensor] : *tensors) piece.arrays.push_back({array, bytes_of(tensor)});
      piece.memory = tensors;
      return piece;
    }
    const std::string begin = name + "/";
    for (const auto& [full, tensor] : part) {
      if (full.starts_with(begin)) piece.arrays.push_back({full.substr(begin.size()), bytes_of(tensor)});
    }
    if (piece.arrays.empty())
      throw CheckpointError(concat("part '", replay_part(shard), "' of the checkpoint has no ", name));
    return piece;
  };
}

}  // namespace tandem::rl
