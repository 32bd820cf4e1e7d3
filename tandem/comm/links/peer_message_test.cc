#include "tandem/comm/links/peer_message.h"

#include <gtest/gtest.h>

#include <functional>

namespace tandem::comm {
namespace {

// What a member reads of a message of another one indexes tables and ends texts.
TEST(PeerMessageTest, OneWhoseNumbersNameNothingIsNotSound) {
  constexpr int kOfGroup = 3;
  const auto with = [](const std::function<void(PeerMessage&)>& change) {
    auto message = std::make_unique<PeerMessage>();
    message->announcement.posting = shm::posting_of(shm::Operation::kAllReduce, 8, "Float");
    change(*message);
    return is_sound(*message, kOfGroup);
  };
  EXPECT_TRUE(with([](PeerMessage&) {}));
  EXPECT_TRUE(with([](PeerMessage& it) { it.by = it.lost = kOfGroup - 1; }));
  const std::vector<std::function<void(PeerMessage&)>> faults{
      [](PeerMessage& it) { it.kind = static_cast<PeerMessage::Kind>(4); },
      [](PeerMessage& it) { it.bytes = kInlinePayload + 1; },
      [](PeerMessage& it) { it.announcement.posting.operation = static_cast<shm::Operation>(5); },
      [](PeerMessage& it) { it.announcement.posting.count = -1; },
      [](PeerMessage& it) { it.announcement.posting.type.fill('x'); },
      [](PeerMessage& it) { it.announcement.row = -1; },
      [](PeerMessage& it) { std::memset(static_cast<void*>(&it.announcement.by_device), 2, 1); },
      [](PeerMessage& it) { it.cause = static_cast<shm::Cause>(6); },
      [](PeerMessage& it) { it.by = kOfGroup; },
      [](PeerMessage& it) { it.by = -1; },
      [](PeerMessage& it) { it.lost = kOfGroup; }};
  for (std::size_t i = 0; i < faults.size(); ++i) EXPECT_FALSE(with(faults[i])) << "fault " << i;
}

}  // namespace
}  // namespace tandem::comm
