#include "tandem/sync/variables/kept_message.h"

#include <cstring>
#include <span>
#include <type_traits>

#include "tandem/sync/variables/message_reader.h"

namespace tandem::sync {
namespace {

static_assert(std::is_trivially_copyable_v<KeptSeat>);

struct RecordHead {
  std::int64_t step = 0, seats = 0;
  double learning_rate = 0, scale = 1, lr_factor = 1;
};

}  // namespace

std::vector<std::byte> bytes_of(const KeptRecord& record) {
  const RecordHead head{.step = record.step,
                        .seats = std::ssize(record.seats),
                        .learning_rate = record.learning_rate,
                        .scale = record.scale,
                        .lr_factor = record.lr_factor};
  const auto seats = std::as_bytes(std::span(record.seats));
  std::vector<std::byte> bytes(sizeof(head) + seats.size());
  std::memcpy(bytes.data(), &head, sizeof(head));
  if (!seats.empty()) std::memcpy(bytes.data() + sizeof(head), seats.data(), seats.size());
  return bytes;
}

KeptRecord read_record(MessageReader& reader) {
  const auto head = reader.read<RecordHead>();
  return {.step = head.step,
          .learning_rate = head.learning_rate,
          .scale = head.scale,
          .lr_factor = head.lr_factor,
          .seats = reader.read_many<KeptSeat>(static_cast<std::size_t>(head.seats))};
}

StepMessage::StepMessage(const KeptRecord& record, const model::FlatParameters::Gradients& sums)
    : head_(bytes_of(record)), parts_(head_, &sums) {}

}  // namespace tandem::sync
