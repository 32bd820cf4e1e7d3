#include "tandem/metrics/sink.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "tandem/base/atomic_file.h"
#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/fault_point.h"
#include "tandem/base/input_file.h"
#include "tandem/base/text.h"

namespace tandem {
namespace {

// Returns zero, or the errno with which writing failed. An injected fault comes after half of the piece is written, as
// on a disk that fills up.
int write_all(int descriptor, std::string_view piece) {
  const int injected = fault_errno("metrics.append");
  if (injected != 0) piece = piece.substr(0, piece.size() / 2);
  while (!piece.empty()) {
    const ssize_t written = ::write(descriptor, piece.data(), piece.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    piece.remove_prefix(static_cast<std::size_t>(written));
  }
  return injected;
}

}  // namespace

std::optional<double> number_of(const MetricValue& value) {
  if (const auto* real = std::get_if<double>(&value)) return *real;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
  return std::nullopt;
}

Record::Record(const std::vector<std::pair<std::string, double>>& numbers) {
  for (const auto& [name, number] : numbers) add(name, number);
}

// Records have a few dozen fields, so names are compared one by one.
Record& Record::add(std::string name, MetricValue value) {
  TANDEM_CHECK(find(name) == nullptr, "the record already has '", name, "'");
  fields_.emplace_back(std::move(name), std::move(value));
  return *this;
}

const MetricValue* Record::find(std::string_view name) const {
  const auto found =
      std::find_if(fields_.begin(), fields_.end(), [&](const auto& field) { return field.first == name; });
  return found == fields_.end() ? nullptr : &found->second;
}

double Record::number(std::string_view name) const {
  const MetricValue* value = find(name);
  return (value == nullptr ? std::nullopt : number_of(*value)).value_or(std::numeric_limits<double>::quiet_NaN());
}

AppendFile::AppendFile(std::filesystem::path path)
    : path_(std::move(path)),
      file_(open_regular("open", path_, O_WRONLY | O_CREAT | O_APPEND)),
      identity_(FileIdentity::of(file_)) {
  const off_t end = ::lseek(file_.get(), 0, SEEK_END);
  size_ = end < 0 ? 0 : static_cast<std::uint64_t>(end);
}

void AppendFile::append(std::string_view piece) {
  if (FileIdentity::of(file_) != identity_) {
    const int number = file_.release();  // whose it is now, is not known
    throw CheckpointError(concat("cannot append to ", path_.string(), ": its descriptor ", number,
                                 " was closed by something else in this process, a library that closes descriptors "
                                 "which it did not open; what was written before is still whole"));
  }
  if (const int error_number = write_all(file_.get(), piece); error_number != 0) {
    // If cutting fails as well, the torn piece stays. The readers of these files know how to drop it.
    (void)!::ftruncate(file_.get(), static_cast<off_t>(size_));
    throw_file_error("append to", path_, error_number);
  }
  size_ += piece.size();
}

}  // namespace tandem
