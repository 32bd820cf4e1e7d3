#include "tandem/model/files/checkpoint_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <set>
#include <utility>

#include "tandem/base/atomic_file.h"
#include "tandem/base/check.h"
#include "tandem/base/digest/sha256.h"
#include "tandem/base/error.h"
#include "tandem/base/fault_point.h"

// Each step below leaves a state from which nothing that was committed is lost:
//   begin()    an old checkpoint of the same number is renamed to u....old, then the new folder is made;
//   parts      are files of their own, each written aside, synced and renamed (AtomicFile);
//   manifest   comes last and makes the folder a checkpoint;
//   clean()    removes u....old once the new one is whole, or puts it back when it is not;
//   remove()   takes the manifest first, so that no folder with a manifest ever lacks a part.
// find() looks at both names, so a checkpoint that is set aside still counts.
namespace tandem::model {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAside = ".old";
constexpr std::size_t kDigits = 12;

// A folder is a checkpoint when it has a manifest, which is written last.
bool is_whole(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / kManifestFile, ignored);
}

// Updates of "u000000000012" or "u000000000012.old"; nothing for other names.
std::optional<std::int64_t> updates_of(std::string_view name) {
  if (name.ends_with(kAside)) name.remove_suffix(kAside.size());
  if (!name.starts_with('u') || name.size() < kDigits + 1) return std::nullopt;
  std::int64_t updates = 0;
  const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), updates);
  if (error != std::errc() || end != name.data() + name.size() || updates < 0) return std::nullopt;
  return updates;
}

// Every number of updates that a folder here is named after, whole or not.
std::set<std::int64_t> numbers_in(const fs::path& folder) {
  std::set<std::int64_t> numbers;
  std::error_code error;
  if (!fs::exists(folder, error)) return numbers;
  for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (const auto updates = updates_of(entry->path().filename().string())) numbers.insert(*updates);
  }
  if (error) throw_file_error("list", folder, error.value());
  return numbers;
}

void remove_folder(const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) throw_file_error("remove", folder, error.value());
}

void rename_folder(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) throw_file_error("rename", from, error.value());
  sync_folder(from.parent_path());
}

// What a file system says that has no links, or whose files have as many names as they can.
bool cannot_link(int error_number) {
  return error_number == EPERM || error_number == EMLINK || error_number == EOPNOTSUPP || error_number == ENOSYS ||
         error_number == EXDEV;
}

// A second name for a file, or a copy where there are no links.
void link_file(const fs::path& from, const fs::path& to, std::uint64_t bytes) {
  int refusal = fault_errno("checkpoint.link");
  if (refusal == 0 && ::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), AT_SYMLINK_FOLLOW) != 0) refusal = errno;
  if (refusal == 0) return;
  if (!cannot_link(refusal)) throw_file_error(concat("keep ", from.string(), " as"), to, refusal);
  write_file(to, read_file(from, bytes));
}

// The checkpoint when all of it is as it was written; otherwise nothing, and `damage` says why.
std::optional<Checkpoint> open_whole(const fs::path& folder, std::string& damage) {
  try {
    auto found = Checkpoint::open(folder);
    found.verify();
    return found;
  } catch (const CheckpointError& error) {
    damage = error.what();
    return std::nullopt;
  }
}

// The checkpoints that have a score, best first; of equal scores the newer first. A damaged one, which latest() and
// open() report, cannot be the best.
std::vector<std::int64_t> by_score(const CheckpointStore& store) {
  std::vector<std::pair<double, std::int64_t>> scored;
  for (const auto updates : store.list()) {
    try {
      if (const auto score = store.open(updates).info().score) scored.emplace_back(*score, updates);
    } catch (const CheckpointError&) {
      continue;
    }
  }
  std::ranges::sort(scored, std::ranges::greater());
  std::vector<std::int64_t> ordered;
  for (const auto& entry : scored) ordered.push_back(entry.second);
  return ordered;
}

}  // namespace

CheckpointStore::CheckpointStore(fs::path folder, CheckpointRetention retention)
    : folder_(std::move(folder)), retention_(retention) {
  if (retention.last < 1 || retention.best < 0) {
    throw ConfigError(concat("checkpoints to keep: the last ", retention.last, " and the best ", retention.best,
                             "; at least the last 1 and the best 0 are needed"));
  }
}

fs::path CheckpointStore::folder_of(std::int64_t updates) const {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "u%0*lld", static_cast<int>(kDigits), static_cast<long long>(updates));
  return folder_ / name.data();
}

fs::path CheckpointStore::set_aside(std::int64_t updates) const { return folder_of(updates) += kAside; }

// Where the checkpoint lies: in its folder, or set aside by a writing that was interrupted.
std::optional<fs::path> CheckpointStore::find(std::int64_t updates) const {
  for (auto path : {folder_of(updates), set_aside(updates)}) {
    if (is_whole(path)) return path;
  }
  return std::nullopt;
}

std::vector<std::int64_t> CheckpointStore::list() const {
  std::vector<std::int64_t> whole;
  for (const auto updates : numbers_in(folder_)) {
    if (find(updates)) whole.push_back(updates);
  }
  return whole;
}

Checkpoint CheckpointStore::open(std::int64_t updates) const {
  if (const auto path = find(updates)) return Checkpoint::open(*path);
  const std::string there = joined(list());
  throw CheckpointError(concat("there is no checkpoint after ", updates, " updates in ", folder_.string(),
                               "; there is ", there.empty() ? "none" : concat("one after ", there)));
}

// The newest first: a run that trains removes older ones when a newer one is whole.
CheckpointStore::Newest CheckpointStore::look() const {
  const std::set<std::int64_t> numbers = numbers_in(folder_);
  fault_point("checkpoint.look");
  Newest seen;
  if (!numbers.empty()) seen.number = *numbers.rbegin();
  for (auto updates = numbers.rbegin(); updates != numbers.rend() && !seen.whole; ++updates)
    seen.whole = find(*updates);
  return seen;
}

// What one look has seen may be gone when it is read, since a run that trains has written a newer one by then. So an
// answer other than a checkpoint needs two looks in a row that see the same.
std::optional<Checkpoint> CheckpointStore::latest() const {
  constexpr int kLooks = 100;
  Newest seen = look();
  for (int looks = 0; looks < kLooks; ++looks) {
    std::string damage;
    if (seen.whole) {
      fault_point("checkpoint.read");
      if (auto newest = open_whole(*seen.whole, damage)) return newest;
    }
    const Newest before = std::exchange(seen, look());
    if (before != seen) continue;
    if (!seen.whole) return std::nullopt;
    report_damage(*seen.whole, damage);
  }
  throw CheckpointError(concat(kLooks, " checkpoints in ", folder_.string(),
                               " were each removed before they were read: a run writes them faster than this process ",
                               "reads; try again, or let the run keep more of them"));
}

// A damaged newest checkpoint is an error, with the name of the newest one that is whole: silently going back would
// repeat work that the user believes done.
void CheckpointStore::report_damage(const fs::path& newest, const std::string& damage) const {
  const auto all = list();
  for (auto older = all.rbegin(); older != all.rend(); ++older) {
    const auto folder = find(*older);
    std::string ignored;
    if (!folder || *folder == newest || !open_whole(*folder, ignored)) continue;
    throw CheckpointError(concat("the newest checkpoint cannot be used: ", damage, ". The one after ", *older,
                                 " updates, ", folder->string(), ", is whole; to go on from there, move ",
                                 newest.string(), " away"));
  }
  throw CheckpointError(concat("the newest checkpoint cannot be used, and no older one is whole: ", damage));
}

std::optional<Checkpoint> CheckpointStore::best() const {
  const auto ordered = by_score(*this);
  if (ordered.empty()) return std::nullopt;
  auto found = open(ordered.front());
  found.verify();
  return found;
}

// One whose manifest cannot be read keeps nothing for those that follow.
std::optional<Checkpoint> CheckpointStore::newest() const {
  const auto all = list();
  if (all.empty()) return std::nullopt;
  try {
    return open(all.back());
  } catch (const CheckpointError&) {
    return std::nullopt;
  }
}

std::set<std::string> CheckpointStore::held() const {
  std::set<std::string> names;
  const std::optional<Checkpoint> before = newest();
  if (!before) return names;
  for (const CheckpointPart& part : before->parts()) {
    std::error_code error;
    if (fs::file_size(before->folder() / part.file(), error) == part.bytes && !error) names.insert(part.name);
  }
  return names;
}

// Leftovers go first, so that at most one old checkpoint of this number has to be set aside.
CheckpointWriter CheckpointStore::begin(std::int64_t updates) {
  TANDEM_EXPECTS(updates >= 0, "a checkpoint of ", updates, " updates; give 0 or more");
  std::error_code error;
  fs::create_directory(folder_, error);
  if (error) throw_file_error("create", folder_, error.value());
  clean();
  const fs::path fresh = folder_of(updates);
  if (is_whole(fresh)) rename_folder(fresh, set_aside(updates));
  fault_point("checkpoint.set_aside");
  CheckpointWriter writer(*this, updates);  // from here on, it puts things back
  if (!fs::create_directory(fresh, error) || error) throw_file_error("create", fresh, error ? error.value() : EEXIST);
  sync_folder(folder_);
  writer.before_ = newest();
  fault_point("checkpoint.begin");
  return writer;
}

// Interrupted writings go; a checkpoint that one of them had set aside takes its place again.
void CheckpointStore::clean() const {
  for (const auto updates : numbers_in(folder_)) {
    const fs::path fresh = folder_of(updates), aside = set_aside(updates);
    if (!is_whole(fresh)) {
      remove_folder(fresh);
      if (is_whole(aside)) rename_folder(aside, fresh);
    }
    remove_folder(aside);
  }
}

// Keeps the newest and the best, and removes all others.
void CheckpointStore::prune() const {
  const auto all = list();
  const auto last = static_cast<std::size_t>(retention_.last);
  std::set<std::int64_t> kept(all.size() > last ? all.end() - retention_.last : all.begin(), all.end());
  auto best = by_score(*this);
  best.resize(std::min(best.size(), static_cast<std::size_t>(retention_.best)));
  kept.insert(best.begin(), best.end());
  for (const auto updates : all) {
    if (!kept.contains(updates)) remove(updates);
  }
}

void CheckpointStore::discard_after(std::int64_t updates) {
  for (const auto newer : list()) {
    if (newer > updates) remove(newer);
  }
}

// First it ceases to be a checkpoint, then its parts go: never a manifest without all of them.
void CheckpointStore::remove(std::int64_t updates) const {
  fault_point("checkpoint.before_prune");
  for (const auto& folder : {set_aside(updates), folder_of(updates)}) {
    if (!is_whole(folder)) continue;
    std::error_code error;
    fs::remove(folder / kManifestFile, error);
    if (error) throw_file_error("remove", folder / kManifestFile, error.value());
    sync_folder(folder);
    fault_point("checkpoint.prune");
    remove_folder(folder);
  }
  fault_point("checkpoint.pruned");
}

CheckpointWriter::CheckpointWriter(CheckpointStore& store, std::int64_t updates)
    : store_(&store), updates_(updates), folder_(store.folder_of(updates)) {}

CheckpointWriter::CheckpointWriter(CheckpointWriter&& other) noexcept
    : store_(std::exchange(other.store_, nullptr)),
      updates_(other.updates_),
      folder_(std::move(other.folder_)),
      parts_(std::move(other.parts_)),
      before_(std::move(other.before_)),
      keeps_some_(other.keeps_some_) {}

CheckpointWriter::~CheckpointWriter() {
  if (store_ != nullptr) abandon();
}

// Removes what was written and puts back what was set aside. The next begin() removes what cannot be removed now.
void CheckpointWriter::abandon() noexcept {
  std::error_code ignored;
  fs::remove(folder_ / kManifestFile, ignored);
  fs::remove_all(folder_, ignored);
  if (const auto aside = store_->set_aside(updates_); fs::exists(aside, ignored)) fs::rename(aside, folder_, ignored);
}

void CheckpointWriter::require_new(const std::string& name) const {
  TANDEM_EXPECTS(store_ != nullptr, "part \"", name, "\" after commit(); begin() another checkpoint");
  TANDEM_EXPECTS(is_part_name(name), "\"", name,
                 "\" cannot be the name of a checkpoint's part, which is a file's name");
  TANDEM_EXPECTS(std::ranges::find(parts_, name, &CheckpointPart::name) == parts_.end(), "part \"", name,
                 "\" is written twice into one checkpoint");
}

// The digest is computed from the bytes as they are written, so no part is read again.
void CheckpointWriter::write_part(const std::string& name, const NamedTensors& tensors,
                                  const SafetensorsMetadata& metadata) {
  require_new(name);
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

void CheckpointWriter::keep_part(const std::string& name) {
  require_new(name);
  const std::vector<CheckpointPart> none;
  const std::vector<CheckpointPart>& parts = before_ ? before_->parts() : none;
  const auto part = std::ranges::find(parts, name, &CheckpointPart::name);
  TANDEM_EXPECTS(part != parts.end(), "part \"", name, "\" is to be kept, and the checkpoint before has none");
  link_file(before_->folder() / part->file(), folder_ / part->file(), part->bytes);
  keeps_some_ = true;
  fault_point("checkpoint.part_kept");
  parts_.push_back(*part);
}

// With the manifest the checkpoint exists. From then on an error cannot undo it, hence store_ is null before the
// clean-up.
void CheckpointWriter::commit(const CheckpointInfo& info) {
  TANDEM_EXPECTS(store_ != nullptr, "a second commit() of one checkpoint");
  TANDEM_EXPECTS(!parts_.empty(), "commit() of a checkpoint without parts; call write_part() first");
  if (keeps_some_) sync_folder(folder_);  // the names of kept parts, before the manifest says that they are there
  fault_point("checkpoint.before_manifest");
  write_file(folder_ / kManifestFile, make_manifest({updates_, info, parts_}));
  const CheckpointStore& store = *std::exchange(store_, nullptr);
  fault_point("checkpoint.after_manifest");
  store.clean();  // the one that was set aside
  store.prune();
}

}  // namespace tandem::model
