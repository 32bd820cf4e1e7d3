// metrics/tensorboard_sink.h: the numbers of each record as scalars that TensorBoard shows.
//
// Writes FOLDER/events.out.tfevents.SECONDS.HOST.PID.N. The file holds TFRecord frames around protobuf Events
// (tensorflow/core/util/event.proto). A frame is the length, the masked CRC-32C of the length, the bytes, and the
// masked CRC-32C of the bytes. The encoding is done here, so nothing of TensorFlow is needed.
//
// Threads: single-thread. Blocks on the disk. Errors: CheckpointError, as AppendFile.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "tandem/metrics/sink.h"

namespace tandem {

class TensorBoardSink : public MetricsSink {
 public:
  /// Starts a new file in `folder`, which must exist. `step_field` names the integer field for the horizontal axis,
  /// such as "env_steps". A resumed run gives the step that it resumes from as `resumed_at`: TensorBoard then drops the
  /// points of earlier files beyond that step.
  TensorBoardSink(const std::filesystem::path& folder, std::string step_field, std::int64_t resumed_at = 0);

  /// Writes all fields that are numbers, in single precision; TensorBoard groups them by what precedes a '/' in the
  /// name. Null and text are left out. The step field must be there.
  void write(const Record& record) override;

  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }

 private:
  const std::string step_field_;
  AppendFile file_;
};

/// Returns the checksum of the frames, CRC-32C (Castagnoli, RFC 3720 section 12.1), before it is masked.
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes);
/// Returns one TFRecord frame around `bytes`.
[[nodiscard]] std::string frame_tfrecord(std::string_view bytes);

}  // namespace tandem
