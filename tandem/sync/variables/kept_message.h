// sync/kept_message.h: steps and whole states of the variables as messages to the process that keeps them. Internal.
//
// As variable_message.h.
#pragma once
#include <cstdint>
#include <vector>

#include "tandem/sync/variables/kept_record.h"
#include "tandem/sync/variables/variable_message.h"

namespace tandem::sync {

/// A record without tensors, as bytes.
[[nodiscard]] std::vector<std::byte> bytes_of(const KeptRecord& record);
/// Takes it off the front of a message.
[[nodiscard]] KeptRecord read_record(MessageReader& reader);

/// A step: bytes_of(), and the sums it is made of. Neither is kept, and must outlive it.
class StepMessage {
 public:
  StepMessage(const KeptRecord& record, const model::FlatParameters::Gradients& sums);

  [[nodiscard]] std::span<const net::Bytes> parts() const { return parts_.get(); }

 private:
  const std::vector<std::byte> head_;
  const MessageParts parts_;
};

}  // namespace tandem::sync
