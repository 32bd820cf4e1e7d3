// model/checkpoint_manifest.h: what makes a folder a checkpoint: the list of its parts and what they belong to.
//
// manifest.json is one JSON object. Its last member is the SHA-256 of all text before it, so a manifest vouches for
// itself, and with the digests of the parts for the whole checkpoint. Without any tensor, and safe on any bytes.
// Threads: any. Errors: CheckpointError with the cause; callers add the file's name.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::model {

/// The version that is written. Files of this and earlier versions are read.
inline constexpr std::int64_t kCheckpointFormat = 1;

/// One file of a checkpoint: NAME.safetensors.
struct CheckpointPart {
  std::string name;  // lower-case letters, digits, '_', '-' and '.', not beginning with '.'; at most 100 of them
  std::uint64_t bytes = 0;
  std::string sha256;  // 64 lower-case hexadecimal digits

  [[nodiscard]] std::string file() const { return name + ".safetensors"; }
  friend bool operator==(const CheckpointPart&, const CheckpointPart&) = default;
};

/// A description of the saved state, in the words of the algorithm that saves it.
struct CheckpointInfo {
  std::string kind;                              // "ppo": what can go on from it
  std::string tandem_version;                    // of the program that wrote it
  std::map<std::string, std::int64_t> counters;  // "env_steps": 81920
  std::map<std::string, std::string> metadata;   // text; may itself be JSON or YAML
  std::optional<double> score;                   // larger is better; decides which checkpoint is the best

  friend bool operator==(const CheckpointInfo&, const CheckpointInfo&) = default;
};

struct CheckpointManifest {
  std::int64_t updates = 0;
  CheckpointInfo info;
  std::vector<CheckpointPart> parts;

  friend bool operator==(const CheckpointManifest&, const CheckpointManifest&) = default;
};

/// Whether a part may have this name. Nothing that could lead out of the folder.
[[nodiscard]] bool is_part_name(std::string_view name);

/// A JSON object with the digest of its text as last member. `object` has at least one member.
[[nodiscard]] std::string seal_manifest(std::string object);
[[nodiscard]] std::string make_manifest(const CheckpointManifest& manifest);
/// Throws CheckpointError: cut off, changed (with both digests), of a newer format, or not a manifest at all.
[[nodiscard]] CheckpointManifest parse_manifest(std::string_view text);

}  // namespace tandem::model
