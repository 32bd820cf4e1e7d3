#include "tandem/model/files/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <utility>

#include "tandem/base/atomic_file.h"
#include "tandem/base/check.h"
#include "tandem/base/digest/sha256.h"
#include "tandem/base/error.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/json_writer.h"

namespace tandem::model {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormatName = "tandem-checkpoint";
constexpr std::size_t kDigestLength = 64;
// The text ends in: <kSealBegin><64 digits><kSealEnd>.
constexpr std::string_view kSealBegin = ",\"manifest_sha256\":\"";
constexpr std::string_view kSealEnd = "\"}\n";

bool is_digest(std::string_view text) {
  return text.size() == kDigestLength &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::string digest_of(std::string_view text) { return sha256_hex(std::as_bytes(std::span(text))); }

// Compares the digest at the end of the text with that of the text before it. Nothing in the text is used before this
// has passed, so the parser below sees only what tandem wrote.
void check_seal(std::string_view text) {
  const std::size_t seal = kSealBegin.size() + kDigestLength + kSealEnd.size();
  if (text.size() < seal || !text.ends_with(kSealEnd) ||
      text.substr(text.size() - seal, kSealBegin.size()) != kSealBegin) {
    throw CheckpointError(concat("it has ", text.size(),
                                 " bytes and does not end with its own digest, as every manifest "
                                 "does: it was cut off, or is no manifest of tandem"));
  }
  const auto expected = text.substr(text.size() - kDigestLength - kSealEnd.size(), kDigestLength);
  const auto actual = digest_of(text.substr(0, text.size() - seal));
  if (expected != actual) {
    throw CheckpointError(concat("it was changed after it was written: it says that its SHA-256 is ", expected,
                                 ", its text has ", actual));
  }
}

CheckpointPart parse_part(const JsonValue& value) {
  CheckpointPart part{value.at("name").as_string(), value.at("bytes").as_uint64(), value.at("sha256").as_string()};
  if (!is_part_name(part.name)) throw CheckpointError(concat("\"", part.name, "\" cannot be the name of a part"));
  if (!is_digest(part.sha256)) throw CheckpointError(concat("\"", part.sha256, "\" is no SHA-256"));
  return part;
}

// The version is looked at before all fields that another version may have changed.
CheckpointManifest parse_body(const JsonValue& root) {
  if (root.at("format").as_string() != kFormatName) {
    throw CheckpointError(concat("its format is \"", root.at("format").as_string(), "\", not \"", kFormatName, "\""));
  }
  if (const auto version = root.at("format_version").as_int64(); version < 1 || version > kCheckpointFormat) {
    throw CheckpointError(concat("it has format version ", version, ", written by tandem ",
                                 root.at("tandem_version").as_string(), "; this program reads versions 1 to ",
                                 kCheckpointFormat, ": use that version of tandem or a newer one"));
  }
  CheckpointManifest manifest;
  manifest.updates = root.at("updates").as_int64();
  if (manifest.updates < 0) throw CheckpointError(concat("it counts ", manifest.updates, " updates"));
  manifest.info.kind = root.at("kind").as_string();
  manifest.info.tandem_version = root.at("tandem_version").as_string();
  for (const auto& [name, value] : root.at("counters").as_object()) manifest.info.counters[name] = value.as_int64();
  for (const auto& [name, value] : root.at("metadata").as_object()) manifest.info.metadata[name] = value.as_string();
  if (!root.at("score").is_null()) manifest.info.score = root.at("score").as_double();
  std::set<std::string> names;
  for (const auto& value : root.at("parts").as_array()) {
    manifest.parts.push_back(parse_part(value));
    const auto& name = manifest.parts.back().name;
    if (!names.insert(name).second) throw CheckpointError(concat("part \"", name, "\" is listed twice"));
  }
  return manifest;
}

}  // namespace

// No letter that a file system may treat in a way of its own, and no '/' that could lead out of the folder.
bool is_part_name(std::string_view name) {
  constexpr std::size_t kMost = 100;
  return !name.empty() && name.size() <= kMost && name.front() != '.' && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
  });
}

std::string seal_manifest(std::string object) {
  TANDEM_CHECK(object.ends_with('}'), "not a JSON object");
  object.pop_back();  // comes back behind the seal
  return concat(object, kSealBegin, digest_of(object), kSealEnd);
}

// A score that is not finite is written as null: JSON has no word for it, and it could not be compared.
std::string make_manifest(const CheckpointManifest& manifest) {
  const auto& info = manifest.info;
  JsonWriter json;
  json.begin_object().key("format").value(kFormatName).key("format_version").value(kCheckpointFormat);
  json.key("tandem_version").value(info.tandem_version).key("kind").value(info.kind);
  json.key("updates").value(manifest.updates).key("score");
  if (info.score && std::isfinite(*info.score)) {
    json.value(*info.score);
  } else {
    json.value(nullptr);
  }
  json.key("counters").begin_object();
  for (const auto& [name, value] : info.counters) json.key(name).value(value);
  json.end_object().key("metadata").begin_object();
  for (const auto& [name, value] : info.metadata) json.key(name).value(value);
  json.end_object().key("parts").begin_array();
  for (const auto& part : manifest.parts) {
    TANDEM_CHECK(is_part_name(part.name) && is_digest(part.sha256), "part \"", part.name, "\", \"", part.sha256, "\"");
    json.begin_object().key("name").value(part.name).key("bytes").value(part.bytes);
    json.key("sha256").value(part.sha256).end_object();
  }
  return seal_manifest(json.end_array().end_object().text());
}

CheckpointManifest parse_manifest(std::string_view text) {
  check_seal(text);
  try {
    return parse_body(read_json(text));
  } catch (const JsonError& error) {
    throw CheckpointError(error.what());
  }
}

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
  const std::string text = read_file(file, kLargestJsonFile);
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
  const std::uintmax_t size = fs::file_size(file, ignored);
  if (!ignored && size != part.bytes) {
    throw CheckpointError(concat(file.string(), " is damaged: it has ", size, " bytes, the manifest says ", part.bytes,
                                 "; use another checkpoint, or a copy of this one"));
  }
  std::string content = read_file(file, part.bytes);
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
    throw CheckpointError(concat("checkpoint ", folder_.string(), " has no part \"", name, "\"; it has ",
                                 joined(manifest_.parts, &CheckpointPart::name)));
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
