// model/checkpoint.h: a checkpoint that was written whole, for reading.
//
// A checkpoint is a folder: named parts, each a safetensors file (what a shard, an env group or the model owns, never
// what a rank owns, so any topology can load it), and manifest.json, which lists them with size and SHA-256. The
// manifest is written last: without it there is no checkpoint.
//
// Threads: any; a Checkpoint is immutable. Blocks on the disk.
// Errors: CheckpointError that names the file, what is wrong with it (missing, cut off, changed: with both digests,
// newer format) and what to do.
#pragma once
#include <filesystem>
#include <string_view>

#include "tandem/model/files/checkpoint_manifest.h"
#include "tandem/model/files/safetensors.h"

namespace tandem::model {

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
