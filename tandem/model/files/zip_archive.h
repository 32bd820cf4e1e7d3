// model/files/zip_archive.h: the records of a zip archive in memory, as Python's torch.save() writes one.
//
// Only records that are stored can be read: torch.save() compresses none, and a compressed one could grow without
// bound. The directory of the archive is believed in nothing: every record must lie within the file, before the
// directory, and apart from every other record, so all records together are no larger than the file. Checksums are not
// compared, as PyTorch does not, whose files may have none.
//
// Threads: any; an archive is immutable. Errors: CheckpointError with what is wrong.
#pragma once
#include <cstdint>
#include <map>
#include <string_view>

namespace tandem::model {

/// A record as it lies in the file; its bytes are its content only where it is stored.
struct ZipContent {
  std::string_view bytes;
  bool is_stored = true;
};

/// The directory at the end of an archive, and what it says of the records.
class ZipArchive {
 public:
  /// Reads the directory. `file` must outlive the archive and everything that it returns.
  explicit ZipArchive(std::string_view file);

  /// The content of a record. Throws CheckpointError when there is none of this name, or one that is not stored.
  [[nodiscard]] std::string_view at(std::string_view name) const;
  [[nodiscard]] bool has(std::string_view name) const { return records_.contains(name); }
  [[nodiscard]] const std::map<std::string_view, ZipContent>& records() const { return records_; }
  /// The folder of the first record, with its '/': torch.save() puts all records into one.
  [[nodiscard]] std::string_view folder() const { return folder_; }

 private:
  std::string_view folder_;
  std::map<std::string_view, ZipContent> records_;
};

}  // namespace tandem::model
