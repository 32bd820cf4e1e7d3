// metrics/sink.h: where the measurements of a run go, one record for each update.
// Ownership: a Record is a plain value and holds its texts. Threads: single-thread, as long as one thread writes it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tandem {

/// One measurement. Null stands for a value that does not exist yet, such as the mean return before the first episode
/// has ended.
using MetricValue = std::variant<std::nullptr_t, double, std::int64_t, std::string>;

/// Named measurements, in the order in which they are written. Names are unique.
class Record {
 public:
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

}  // namespace tandem
