// model/checkpoint_store.h: the checkpoints of a run: a folder of u<updates, 12 digits>/ folders.
//
//   CheckpointWriter writer = store.begin(updates);
//   writer.write_part("model", tensors);
//   writer.commit(info);
//
// At any instant, also if the process is killed or the power fails, what was committed before is whole. Each part is
// written aside, synced and renamed; the manifest last. One that is written again is first set aside (".old") and
// removed only when the new one is whole. What an interrupted writing left is removed by the next begin().
//
// With several ranks, one rank writes all parts; the others send it theirs (learner/state_parts.h).
//
// Parts that stay as they are from one checkpoint to the next are written once: keep_part() gives the file of the
// newest checkpoint a second name in the new one (a hard link). So each folder has all parts of its checkpoint, and the
// disk has each of them once, until the last checkpoint that has it is removed.
//
// Threads: single-thread, and one process at a time may begin(). Others may read meanwhile. Blocks on the disk.
// Errors: CheckpointError with path and reason (disk full, say); earlier checkpoints are then untouched.
// Fault points: checkpoint.set_aside, checkpoint.begin, checkpoint.part_written, checkpoint.link,
// checkpoint.part_kept, checkpoint.before_manifest, checkpoint.after_manifest, checkpoint.before_prune,
// checkpoint.prune, checkpoint.pruned, those of AtomicFile, and of latest() checkpoint.look and checkpoint.read.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tandem/model/files/checkpoint.h"

namespace tandem::model {

/// Which checkpoints stay when a new one was committed.
struct CheckpointRetention {
  int last = 3;  // the newest; at least 1
  int best = 1;  // those with the highest score of all, be they among the newest or not; of equal ones the newer
};

class CheckpointStore;

class CheckpointWriter {
 public:
  CheckpointWriter(CheckpointWriter&& other) noexcept;
  CheckpointWriter& operator=(CheckpointWriter&&) = delete;
  /// Without commit(), what was written is removed, and a checkpoint that was set aside is back.
  ~CheckpointWriter();

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  /// Writes one part, now. Its name must be is_part_name() and new.
  void write_part(const std::string& name, const NamedTensors& tensors, const SafetensorsMetadata& metadata = {});
  /// Takes a part over from the checkpoint that CheckpointStore::held() looked at, and which named it: its bytes are
  /// neither read nor written. File systems without hard links get a copy.
  void keep_part(const std::string& name);
  /// Makes it a checkpoint, then removes those that the store need not keep. Call it once, last.
  void commit(const CheckpointInfo& info);

 private:
  friend class CheckpointStore;
  CheckpointWriter(CheckpointStore& store, std::int64_t updates);
  void abandon() noexcept;
  void require_new(const std::string& name) const;

  CheckpointStore* store_;  // null once committed or moved from
  std::int64_t updates_;
  std::filesystem::path folder_;
  std::vector<CheckpointPart> parts_;
  std::optional<Checkpoint> before_;  // the newest one there was, where parts may be kept from
  bool keeps_some_ = false;
};

class CheckpointStore {
 public:
  /// The folder is made by the first begin(), but not the one above it: a run whose folder was removed must not bring
  /// it back. Throws ConfigError when the retention keeps nothing.
  explicit CheckpointStore(std::filesystem::path folder, CheckpointRetention retention = {});

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

  /// Starts the checkpoint after `updates` updates; removes what interrupted writings left behind. The store must
  /// outlive the writer.
  [[nodiscard]] CheckpointWriter begin(std::int64_t updates);

  /// Names of the newest checkpoint's parts that are there in their size, which the next one may keep; their content is
  /// not read. Empty where there is no checkpoint.
  [[nodiscard]] std::set<std::string> held() const;

  /// Updates of every checkpoint that has a manifest, oldest first. Their content is not checked.
  [[nodiscard]] std::vector<std::int64_t> list() const;
  /// The checkpoint after that many updates. Throws CheckpointError that lists those that there are.
  [[nodiscard]] Checkpoint open(std::int64_t updates) const;
  /// The newest, with every digest compared; nothing when there is none. When it is damaged, throws CheckpointError
  /// that says how, and which older one is whole and can be named instead: going back is for the user to decide.
  /// Another process may write checkpoints and remove older ones meanwhile; throws CheckpointError, too, when 100
  /// checkpoints in a row are removed before they are read.
  [[nodiscard]] std::optional<Checkpoint> latest() const;
  /// The one with the highest score; nothing when none has one.
  [[nodiscard]] std::optional<Checkpoint> best() const;

  /// Removes the checkpoints after that many updates: for a run that goes on from an older one, whose newer ones
  /// belong to a course of events that it leaves.
  void discard_after(std::int64_t updates);

 private:
  friend class CheckpointWriter;
  /// A look at the folder: the highest number there, also of one that is not whole yet, and where the newest whole
  /// checkpoint lies.
  struct Newest {
    std::optional<std::int64_t> number = {};
    std::optional<std::filesystem::path> whole = {};
    friend bool operator==(const Newest&, const Newest&) = default;
  };
  [[nodiscard]] Newest look() const;
  [[noreturn]] void report_damage(const std::filesystem::path& newest, const std::string& damage) const;
  [[nodiscard]] std::filesystem::path folder_of(std::int64_t updates) const;
  [[nodiscard]] std::filesystem::path set_aside(std::int64_t updates) const;
  [[nodiscard]] std::optional<std::filesystem::path> find(std::int64_t updates) const;
  [[nodiscard]] std::optional<Checkpoint> newest() const;
  void clean() const;
  void prune() const;
  void remove(std::int64_t updates) const;

  std::filesystem::path folder_;
  CheckpointRetention retention_;
};

}  // namespace tandem::model
