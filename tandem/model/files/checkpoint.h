// model/checkpoint.h: a checkpoint that was written whole, for reading.
//
// A checkpoint is a folder: named parts, each a safetensors file (what a shard, an env group or the model owns, never
// what a rank owns, so any topology can load it), and manifest.json, which lists them with size and SHA-256. The
// manifest is written last: without it there is no checkpoint.
//
// manifest.json is one JSON object. Its last member is the SHA-256 of all text before it, so a manifest vouches for
// itself, and with the digests of the parts for the whole checkpoint.
//
// Threads: any; a Checkpoint is immutable. Blocks on the disk.
// Errors: CheckpointError that names the file, what is wrong with it (missing, cut off, changed: with both digests,
// newer format) and what to do.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/model/files/safetensors.h"

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
/// Safe on any bytes. Throws CheckpointError, to which the caller adds the file's name: cut off, changed (with both
/// digests), of a newer format, or not a manifest at all.
[[nodiscard]] CheckpointManifest parse_manifest(std::string_view text);

inline constexpr std::string_view kManifestFile = "manifest.json";

class Checkpoint {
 public:
  /// Reads the manifest; parts are checked when they are read, or all at once by verify().
  [[nodiscard]] static Checkpoint open(const std::filesystem::path& folder);

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] std::int64_t updates() const { return manifest_.updates; }
  [[nodiscard]] const CheckpointInfo& info() const { return manifest_.info; }
  [[nodiscard]] const std::vector<CheckpointPart>& parts() const { return manifest_.parts; }

  /// The tensors and the metadata of a part whose digest is right.
  [[nodiscard]] TensorFile read_part(std::string_view name) const;
  /// Reads every part and compares its digest.
  void verify() const;

 private:
  Checkpoint(std::filesystem::path folder, CheckpointManifest manifest);
  [[nodiscard]] std::string read_checked(const CheckpointPart& part) const;

  std::filesystem::path folder_;
  CheckpointManifest manifest_;
};

}  // namespace tandem::model
