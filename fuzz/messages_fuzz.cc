// Question: can any bytes, as messages between the members of a run, make a receiver crash, hang, or hold more than
// what came?
//
// The first byte chooses: 0, the server of many (Inbox), in pieces; 1, one connection; 2, the failure in an answer;
// 3, a message of a network group.
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/socket_pair.h"
#include "tandem/base/error.h"
#include "tandem/comm/links/peer_message.h"
#include "tandem/net/connection.h"

namespace {

using namespace tandem;
using Bytes = std::span<const std::byte>;

constexpr std::size_t kMostBytes = 4096;

void check_message(const net::Message& message, std::size_t& left) {
  if (message.bytes.size() > kMostBytes || message.bytes.size() > left) std::abort();
  left -= message.bytes.size();
}

void gather(Bytes bytes) {
  SocketPair sockets;
  net::Stream theirs(std::move(sockets.theirs));
  net::Inbox inbox(kMostBytes);
  std::size_t left = bytes.size();
  bool is_there = true;
  in_pieces(bytes, [&](Bytes piece) {
    if (!is_there) return;
    sockets.send(piece);
    is_there = inbox.read_from(theirs);
    while (const auto message = inbox.next()) {
      check_message(*message, left);
      net::Inbox again(kMostBytes);
      SocketPair second;
      net::Stream of_second(std::move(second.theirs));
      second.send(net::bytes_of(*message));
      const auto same = again.read_from(of_second) ? again.next() : std::nullopt;
      if (!same || same->kind != message->kind || same->bytes != message->bytes) std::abort();
    }
  });
}

void receive_all(Bytes bytes) {
  SocketPair sockets;
  sockets.send(bytes);
  ::shutdown(sockets.ours.get(), SHUT_WR);
  net::Connection connection(net::Stream(std::move(sockets.theirs)), 1, "member 1");
  std::size_t left = bytes.size();
  for (;;) {
    const net::Message message = connection.receive({});
    if (message.bytes.size() > left) std::abort();
    left -= message.bytes.size();
  }
}

void read_failure(Bytes bytes) { net::throw_failure({.kind = net::kFailure, .bytes = {bytes.begin(), bytes.end()}}); }

// As comm/links/peer_links.cc reads it: as much as came, into a message of zeros.
void read_peer_message(Bytes bytes) {
  comm::PeerMessage message{};
  message.payload = {};
  std::memcpy(static_cast<void*>(&message), bytes.data(), std::min(bytes.size(), sizeof(message)));
  constexpr int kMembers = 3;
  if (!comm::is_sound(message, kMembers)) return;
  comm::PeerRecord record{.name = "rank 1"};
  record.begins(message.number, message.announcement);
  if (comm::describe(record).size() > 4096 || message.used() > sizeof(message)) std::abort();
  if (message.kind != comm::PeerMessage::Kind::kFailure) return;
  const std::string why(reinterpret_cast<const char*>(message.payload.data()), message.bytes);
  if (message.by < 0 || message.by >= kMembers || message.lost < 0 || message.lost >= kMembers) std::abort();
  shm::throw_closed(message.cause, shm::ClosedBy::kAnother, message.lost, why);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Bytes bytes = std::as_bytes(std::span(data, size)).subspan(1);
  try {
    switch (data[0] % 4) {
      case 0:
        gather(bytes);
        break;
      case 1:
        receive_all(bytes);
        break;
      case 2:
        read_failure(bytes);
        break;
      default:
        read_peer_message(bytes);
    }
  } catch (const RunError&) {
  }
  return 0;
}
