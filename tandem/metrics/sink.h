// metrics/sink.h: where the measurements of a run go, one record for each update, and the files that take them.
// Ownership: a Record is a plain value and holds its texts. Threads: single-thread, as long as one thread writes it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tandem/base/descriptor.h"

namespace tandem {

/// One measurement. Null stands for a value that does not exist yet, such as the mean return before the first episode
/// has ended.
using MetricValue = std::variant<std::nullptr_t, double, std::int64_t, std::string>;

/// The measurement as a number; nothing for null and text.
[[nodiscard]] std::optional<double> number_of(const MetricValue& value);

/// Named measurements, in the order in which they are written. Names are unique.
class Record {
 public:
  Record() = default;
  /// Of numbers with their names, as layers that know no metrics give them: sync::figures_of().
  explicit Record(const std::vector<std::pair<std::string, double>>& numbers);

  /// Appends a measurement. A name that the record has already throws InvariantError.
  Record& add(std::string name, MetricValue value);
  /// An empty value becomes null, so that every record has the same fields.
  template <typename Value>
  Record& add(std::string name, const std::optional<Value>& value) {
    return add(std::move(name), value ? MetricValue(*value) : MetricValue(nullptr));
  }

  [[nodiscard]] const std::vector<std::pair<std::string, MetricValue>>& fields() const { return fields_; }
  /// The value of a field; a null pointer where no field has that name. It is valid until the next add().
  [[nodiscard]] const MetricValue* find(std::string_view name) const;
  /// The number of a field; NaN where the field is absent, null or text.
  [[nodiscard]] double number(std::string_view name) const;

  friend bool operator==(const Record&, const Record&) = default;

 private:
  std::vector<std::pair<std::string, MetricValue>> fields_;
};

/// A file, or another place, that takes records. Threads: single-thread. write() may block on a disk. It throws
/// CheckpointError when the record cannot be written; the records before are then still whole.
class MetricsSink {
 public:
  virtual ~MetricsSink() = default;
  /// Records come in the order of the updates.
  virtual void write(const Record& record) = 0;
};

/// A file that grows by whole pieces. Each piece is handed to the system at once, so that it survives a crash of the
/// process, but not a power cut. Threads: single-thread; a file has one writer. Blocks on the disk. Fault point:
/// metrics.append.
class AppendFile {
 public:
  /// Opens or creates the file, at its end. Throws CheckpointError. The folder must exist.
  explicit AppendFile(std::filesystem::path path);
  /// Appends the piece. Throws CheckpointError when the piece cannot be written; the written part of it is cut off
  /// again. Throws it, too, when the descriptor was closed by somebody else, and never writes into the file that has
  /// its number by then. A reader never sees the next piece before this one.
  void append(std::string_view piece);

  /// Bytes of the file, those that were there before included.
  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// The path as the constructor was given it.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  // The file is opened for appending, so every write goes to its end.
  Descriptor file_;
  FileIdentity identity_;
  std::uint64_t size_ = 0;
};

}  // namespace tandem
