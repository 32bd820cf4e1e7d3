#include <algorithm>
#include <utility>

#include "tandem/base/atomic_file.h"
#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/fault_point.h"
#include "tandem/base/sha256.h"
#include "tandem/base/text.h"
#include "tandem/model/files/checkpoint_store.h"

namespace tandem::model {

namespace fs = std::filesystem;

CheckpointWriter::CheckpointWriter(CheckpointStore& store, std::int64_t updates)
    : store_(&store), updates_(updates), folder_(store.folder_of(updates)) {}

CheckpointWriter::CheckpointWriter(CheckpointWriter&& other) noexcept
    : store_(std::exchange(other.store_, nullptr)),
      updates_(other.updates_),
      folder_(std::move(other.folder_)),
      parts_(std::move(other.parts_)) {}

CheckpointWriter::~CheckpointWriter() {
  if (store_ != nullptr) abandon();
}

// What cannot be removed now, the next begin() removes.
void CheckpointWriter::abandon() noexcept {
  std::error_code ignored;
  fs::remove(folder_ / kManifestFile, ignored);
  fs::remove_all(folder_, ignored);
  if (const auto aside = store_->set_aside(updates_); fs::exists(aside, ignored)) fs::rename(aside, folder_, ignored);
}

void CheckpointWriter::write_part(const std::string& name, const NamedTensors& tensors,
                                  const SafetensorsMetadata& metadata) {
  TANDEM_CHECK(store_ != nullptr, "part \"", name, "\" after commit");
  TANDEM_CHECK(is_part_name(name), "\"", name, "\" cannot be the name of a part");
  TANDEM_CHECK(std::ranges::find(parts_, name, &CheckpointPart::name) == parts_.end(), "part \"", name, "\" twice");
  CheckpointPart part{name, 0, {}};
  AtomicFile file(folder_ / part.file());
  Sha256 hash;
  write_safetensors(tensors, metadata, [&](std::span<const std::byte> bytes) {
    file.write(bytes);
    hash.update(bytes);
  });
  file.commit();
  fault_point("checkpoint.part_written");
  part.bytes = file.size();
  part.sha256 = hash.hex();
  parts_.push_back(std::move(part));
}

void CheckpointWriter::commit(const CheckpointInfo& info) {
  TANDEM_CHECK(store_ != nullptr, "a second commit");
  TANDEM_CHECK(!parts_.empty(), "a checkpoint without parts");
  fault_point("checkpoint.before_manifest");
  write_file(folder_ / kManifestFile, make_manifest({updates_, info, parts_}));
  const CheckpointStore& store = *std::exchange(store_, nullptr);
  fault_point("checkpoint.after_manifest");
  store.clean();  // the one that was set aside
  store.prune();
}

}  // namespace tandem::model
