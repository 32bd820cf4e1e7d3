#include "tandem/model/files/checkpoint.h"

#include <algorithm>
#include <span>
#include <utility>

#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/sha256.h"
#include "tandem/base/text.h"

namespace tandem::model {

namespace fs = std::filesystem;

Checkpoint::Checkpoint(fs::path folder, CheckpointManifest manifest)
    : folder_(std::move(folder)), manifest_(std::move(manifest)) {}

// Reads and checks the manifest alone; what is missing is told apart from what is damaged.
Checkpoint Checkpoint::open(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) throw CheckpointError(concat("there is no checkpoint ", folder.string()));
  const fs::path file = folder / kManifestFile;
  if (!fs::exists(file, ignored)) {
    throw CheckpointError(concat(folder.string(), " is not a checkpoint: it has no ", kManifestFile,
                                 " (its writing was interrupted, or it is another kind of folder)"));
  }
  const std::string text = read_file(file);
  try {
    return Checkpoint(folder, parse_manifest(text));
  } catch (const CheckpointError& error) {
    throw CheckpointError(concat(file.string(), " cannot be used: ", error.what()));
  }
}

// Size first, since it is the cheap sign of a file that was cut off; then the digest. The whole part is in memory once.
std::string Checkpoint::read_checked(const CheckpointPart& part) const {
  const fs::path file = folder_ / part.file();
  std::error_code ignored;
  if (!fs::exists(file, ignored)) {
    throw CheckpointError(concat("checkpoint ", folder_.string(), " lacks its part ", part.file(),
                                 ": it was removed or not copied; bring it back, or use another checkpoint"));
  }
  std::string content = read_file(file);
  if (content.size() != part.bytes) {
    throw CheckpointError(concat(file.string(), " is damaged: it has ", content.size(), " bytes, the manifest says ",
                                 part.bytes, "; use another checkpoint, or a copy of this one"));
  }
  if (const auto actual = sha256_hex(std::as_bytes(std::span(content))); actual != part.sha256) {
    throw CheckpointError(concat(file.string(), " is damaged: its SHA-256 is ", actual, ", the manifest says ",
                                 part.sha256, "; use another checkpoint, or a copy of this one"));
  }
  return content;
}

// The tensors are made from bytes whose digest is right, so what fails here was written wrongly.
TensorFile Checkpoint::read_part(std::string_view name) const {
  const auto part = std::ranges::find(manifest_.parts, name, &CheckpointPart::name);
  if (part == manifest_.parts.end()) {
    std::string there;
    for (const auto& other : manifest_.parts) there += (there.empty() ? "" : ", ") + other.name;
    throw CheckpointError(concat("checkpoint ", folder_.string(), " has no part \"", name, "\"; it has ", there));
  }
  const std::string content = read_checked(*part);
  try {
    return read_safetensors(std::as_bytes(std::span(content)));
  } catch (const CheckpointError& error) {
    throw CheckpointError(concat((folder_ / part->file()).string(), ": ", error.what()));
  }
}

void Checkpoint::verify() const {
  for (const auto& part : manifest_.parts) (void)read_checked(part);
}

}  // namespace tandem::model
